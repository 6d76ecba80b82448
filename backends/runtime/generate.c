/* Text in C: generate model.octet tokenizer.json "message" prints the answer as it comes. */
#include <octet.h>
#include <stdio.h>

static int fail(void) { return fprintf(stderr, "generate: %s\n", octet_last_error()), 1; }

static int print_token(void* count, int64_t id, const char* text) {
  (void)id;
  ++*(int*)count;
  return fputs(text, stdout) < 0 || fflush(stdout) != 0; /* 1, to stop, if nobody reads it */
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "generate: want model.octet tokenizer.json message\n"), 1;
  const octet_options options = {
      .size = sizeof(options), .threads = OCTET_DEFAULT_THREADS, .logits_to_keep = 1};
  octet_model* model = octet_load(argv[1], &options);
  if (model == NULL) return fail();
  octet_tokenizer* tokenizer = octet_load_tokenizer(argv[2]);
  if (tokenizer == NULL) return fail();
  const octet_generation generation = {.size = sizeof(generation), .is_chat = 1};
  int count = 0;
  if (octet_generate(model, tokenizer, argv[3], &generation, print_token, &count)) return fail();
  fprintf(stderr, "\n%d tokens\n", count);
  octet_free_tokenizer(tokenizer);
  octet_free(model);
  return 0;
}
