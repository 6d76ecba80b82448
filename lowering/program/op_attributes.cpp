// The attributes of each kind of op as a table, and the check against it.
#include "lowering/program/op_attributes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet {
namespace {

enum class AttributeType { kFlag, kInteger, kReal, kText, kIntegers, kReals };

struct AttributeName {
  std::string_view name;
  AttributeType type = AttributeType::kFlag;
};

constexpr AttributeName flag(std::string_view name) { return {name, AttributeType::kFlag}; }
constexpr AttributeName integer(std::string_view name) { return {name, AttributeType::kInteger}; }
constexpr AttributeName real(std::string_view name) { return {name, AttributeType::kReal}; }
constexpr AttributeName text(std::string_view name) { return {name, AttributeType::kText}; }
constexpr AttributeName integers(std::string_view name) { return {name, AttributeType::kIntegers}; }
constexpr AttributeName reals(std::string_view name) { return {name, AttributeType::kReals}; }

constexpr AttributeName kPostMin = real("post_min"), kPostMax = real("post_max"),
                        kStride = integers("stride"), kPaddingSizes = integers("padding"),
                        kDilation = integers("dilation"), kKernelSize = integers("kernel_size"),
                        kOutputSize = integers("output_size"), kGroups = integer("groups"),
                        kAlpha = real("alpha"), kFn = text("fn"), kDim = integer("dim"),
                        kDims = integers("dims"), kKeepdim = flag("keepdim"), kEps = real("eps"),
                        kNormalizedDims = integer("normalized_dims"), kMode = text("mode"),
                        kAlignCorners = flag("align_corners"), kCeilMode = flag("ceil_mode"),
                        kQuantMin = integer("quant_min"), kQuantMax = integer("quant_max"),
                        kBodies = integers("bodies"), kReduce = text("reduce"),
                        kIncludeSelf = flag("include_self");

struct KindRow {
  std::string_view kind;
  std::array<AttributeName, 8> attributes;  // unused ones have no name
};

// clang-format off
constexpr KindRow kKinds[] = {
    {"conv",                  {kStride, kPaddingSizes, integers("padding_end"), kDilation, kGroups, kPostMin, kPostMax}},
    {"conv_transpose",        {kStride, kPaddingSizes, integers("output_padding"), kDilation, kGroups, kPostMin, kPostMax}},
    {"linear",                {kPostMin, kPostMax}},
    {"matmul",                {kPostMin, kPostMax}},
    {"add",                   {kAlpha, kPostMin, kPostMax}},
    {"sub",                   {kAlpha, kPostMin, kPostMax}},
    {"mul",                   {kPostMin, kPostMax}},
    {"div",                   {kPostMin, kPostMax}},
    {"minimum",               {kPostMin, kPostMax}},
    {"maximum",               {kPostMin, kPostMax}},
    {"binary",                {kFn}},
    {"max_pool",              {kKernelSize, kStride, kPaddingSizes, kDilation, kCeilMode}},
    {"avg_pool",              {kKernelSize, kStride, kPaddingSizes, kCeilMode, flag("count_include_pad"), integer("divisor_override"), kPostMin, kPostMax}},
    {"adaptive_avg_pool",     {kOutputSize, kPostMin, kPostMax}},
    {"adaptive_max_pool",     {kOutputSize}},
    {"im2col",                {kKernelSize, kStride, kPaddingSizes, kDilation}},
    {"col2im",                {kOutputSize, kKernelSize, kStride, kPaddingSizes, kDilation}},
    {"mean",                  {kDims, kKeepdim, kPostMin, kPostMax}},
    {"reduce",                {kFn, kDims, kKeepdim, kPostMin, kPostMax}},
    {"arg_reduce",            {kFn, kDim, kKeepdim}},
    {"cumulative",            {kFn, kDim}},
    {"sort",                  {kDim, flag("descending"), flag("stable")}},
    {"topk",                  {kDim, integer("k"), flag("largest"), flag("sorted")}},
    {"clamp",                 {real("min"), real("max")}},
    {"unary",                 {kFn, kAlpha, real("threshold")}},
    {"prelu",                 {}},
    {"where",                 {}},
    {"softmax",               {kDim, flag("masked")}},
    {"log_softmax",           {kDim}},
    {"layer_norm",            {kNormalizedDims, kEps}},
    {"rms_norm",              {kNormalizedDims, kEps}},
    {"rotary",                {}},
    {"batch_norm",            {kEps}},
    {"group_norm",            {kGroups, kEps}},
    {"recurrent",             {text("cell"), flag("reverse")}},
    {"quantize",              {kQuantMin, kQuantMax}},
    {"dequantize",            {}},
    {"requantize",            {kQuantMin, kQuantMax}},
    {"reshape",               {}},
    {"permute",               {kDims}},
    {"cat",                   {kDim}},
    {"slice",                 {kDim, integer("start"), integer("step")}},
    {"expand",                {}},
    {"pad",                   {integers("pads"), real("value")}},
    {"upsample",              {kMode, kAlignCorners, reals("scales")}},
    {"grid_sample",           {kMode, text("padding_mode"), kAlignCorners}},
    {"embedding",             {}},
    {"embedding_bag",         {kMode, integer("padding_idx"), flag("include_last_offset")}},
    {"gather",                {kDim}},
    {"scatter",               {kDim, kReduce, kIncludeSelf}},
    {"index",                 {flag("from_end")}},
    {"index_put",             {flag("accumulate")}},
    {"flip",                  {kDims}},
    {"size",                  {integer("value")}},
    {"cast",                  {}},
    {"copy",                  {}},
    {"cond",                  {kBodies}},
    {"while_loop",            {kBodies}},
    {"scan",                  {kBodies, integer("carried"), integer("rows")}},
    {"fake_quantize_dynamic", {kQuantMin, kQuantMax, integers("blocks"), kEps, text("mapping"), integer("zero_point")}},
    {"nonzero",               {}},
    {"rest",                  {kBodies, integer("counts")}},
    {"aten",                  {text("op"), text("graph")}},
};
// clang-format on

bool has_type(const Attribute& attribute, AttributeType type) {
  switch (type) {
    case AttributeType::kFlag:
      return std::holds_alternative<bool>(attribute);
    case AttributeType::kInteger:
      return std::holds_alternative<int64_t>(attribute);
    case AttributeType::kReal:  // integers count as reals
      return std::holds_alternative<double>(attribute) ||
             std::holds_alternative<int64_t>(attribute);
    case AttributeType::kText:
      return std::holds_alternative<std::string>(attribute);
    case AttributeType::kIntegers:
      return std::holds_alternative<std::vector<int64_t>>(attribute);
    case AttributeType::kReals:
      return std::holds_alternative<std::vector<double>>(attribute);
  }
  return false;
}

std::string names_of(const KindRow& row) {
  std::vector<std::string_view> names;
  for (const AttributeName& attribute : row.attributes)
    if (!attribute.name.empty()) names.push_back(attribute.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string find_attribute_fault(const ProgramOp& op) {
  const KindRow* row =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const KindRow& candidate) { return candidate.kind == op.kind; });
  if (row == std::end(kKinds)) return "";
  for (const auto& [key, value] : op.attributes) {
    const auto is_this = [&name = key](const AttributeName& candidate) {
      return !name.empty() && candidate.name == name;
    };
    const auto* found = std::find_if(row->attributes.begin(), row->attributes.end(), is_this);
    if (found == row->attributes.end())
      return fmt::format("attribute \"{}\", which {} lacks, want {}", key, op.kind, names_of(*row));
    if (!has_type(value, found->type))
      return fmt::format("attribute \"{}\" of another type than {} wants", key, op.kind);
  }
  return "";
}

}  // namespace octet
