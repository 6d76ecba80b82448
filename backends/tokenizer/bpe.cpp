// Merges the pair with the lowest rank until no pair is known. Example, with the merges "l o", "lo
// w", "e r" in this order: l o w e r -> lo w e r -> low e r -> low er, two tokens. Sennrich et al.,
// "Neural Machine Translation of Rare Words with Subword Units", 2016.
#include "backends/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "backends/tokenizer/unicode.h"
#include "core/base/error.h"
#include "core/base/printable.h"

namespace octet::tokenizer {
namespace {

uint64_t pair_of(Id first, Id second) {
  return uint64_t{static_cast<uint32_t>(first)} << 32 | static_cast<uint32_t>(second);
}

}  // namespace

void Bpe::add(const std::string& token, Id id) {
  const auto [place, is_new] = ids_.try_emplace(token, id);
  if (!is_new) place->second = id;
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[static_cast<size_t>(id)] = &place->first;
}

std::optional<Id> Bpe::id_of(const std::string& token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional<Id>(found->second);
}

const std::string* Bpe::token(Id id) const {
  return id < 0 || static_cast<size_t>(id) >= tokens_.size() ? nullptr
                                                             : tokens_[static_cast<size_t>(id)];
}

bool Bpe::add_merge(const std::string& first, const std::string& second) {
  const std::optional<Id> a = id_of(first), b = id_of(second), whole = id_of(first + second);
  if (!a || !b || !whole) return false;
  merges_[pair_of(*a, *b)] = {static_cast<uint32_t>(merges_.size()), *whole};
  return true;
}

void Bpe::add_merges_by_score(const std::vector<float>& scores,
                              const std::vector<bool>& is_merged) {
  struct Candidate {
    float score;
    Id whole, first, second;
  };
  std::vector<Candidate> all;
  for (const auto& [token, id] : ids_) {
    if (!is_merged[static_cast<size_t>(id)]) continue;
    for (size_t at = 1; at < token.size(); ++at) {
      const std::optional<Id> first = id_of(token.substr(0, at)), second = id_of(token.substr(at));
      if (first && second) all.push_back({scores[static_cast<size_t>(id)], id, *first, *second});
    }
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.score, a.whole, a.first, a.second) <
           std::tie(a.score, b.whole, b.first, b.second);
  });
  for (const Candidate& merge : all)
    merges_[pair_of(merge.first, merge.second)] = {static_cast<uint32_t>(merges_.size()),
                                                   merge.whole};
}

const Bpe::Merge* Bpe::merge_of(Id first, Id second) const {
  const auto found = merges_.find(pair_of(first, second));
  return found == merges_.end() ? nullptr : &found->second;
}

std::vector<Id> Bpe::characters(const std::string& word) const {
  std::vector<Id> ids;
  bool is_unknown = false;  // the last one
  for (size_t at = 0; at < word.size();) {
    const size_t size = std::max<size_t>(character_size(std::string_view(word).substr(at)), 1);
    const std::string character = word.substr(at, size);
    at += size;
    if (const std::optional<Id> id = id_of(character)) {
      ids.push_back(*id);
      is_unknown = false;
      continue;
    }
    if (has_bytes) {
      std::vector<Id> bytes;
      for (const char byte : character)
        if (const std::optional<Id> id =
                id_of(fmt::format("<0x{:02X}>", static_cast<uint8_t>(byte))))
          bytes.push_back(*id);
      if (bytes.size() == size) {
        ids.insert(ids.end(), bytes.begin(), bytes.end());
        continue;
      }
    }
    if (!unknown)
      throw Error("tokenizer", "text",
                  fmt::format("needs the token '{}', which the vocabulary lacks; leave out rare "
                              "characters",
                              printable_line(character)));
    if (!is_unknown || !fuses_unknown) ids.push_back(*unknown);
    is_unknown = true;
  }
  return ids;
}

// A queue of possible merges, by rank and then position. A merge whose parts have changed is void.
void Bpe::encode(const std::string& word, std::vector<Id>& to) const {
  if (tries_whole) {
    if (const std::optional<Id> id = id_of(word)) {
      to.push_back(*id);
      return;
    }
  }
  std::vector<Id> ids = characters(word);
  const size_t end = ids.size();
  std::vector<size_t> next(end), previous(end);
  for (size_t i = 0; i < end; ++i) next[i] = i + 1, previous[i] = i == 0 ? end : i - 1;
  using Entry = std::tuple<uint32_t, size_t, Id>;  // rank, position, result
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto offer = [&](size_t i) {
    if (i >= end || next[i] >= end) return;
    if (const Merge* merge = merge_of(ids[i], ids[next[i]]))
      queue.push({merge->rank, i, merge->id});
  };
  for (size_t i = 0; i < end; ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, i, id] = queue.top();
    queue.pop();
    if (ids[i] < 0 || next[i] >= end) continue;
    const Merge* merge = merge_of(ids[i], ids[next[i]]);
    if (merge == nullptr || merge->id != id) continue;
    const size_t right = next[i];
    ids[i] = id;
    ids[right] = -1;
    next[i] = next[right];
    if (next[i] < end) previous[next[i]] = i;
    offer(previous[i]);
    offer(i);
  }
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(to), [](Id id) { return id >= 0; });
}

}  // namespace octet::tokenizer
