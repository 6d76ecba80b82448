#!/usr/bin/env bash
# Sets everything up (tools/setup.sh) and quantizes EfficientNet-Lite0 with its ImageNet weights:
# exports it, calibrates on photographs, lowers it to oneDNN and XNNPACK, classifies photographs that
# the calibration did not see, and prints a table.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh

out=build/demo
octet=build/release/bin/octet
step() { echo "== $*" >&2; }

step "export EfficientNet-Lite0 and the photographs"
[ -f $out/model.pt2 ] || .venv/bin/python tools/models/export.py efficientnet_lite0 --out $out
step "quantize: xnnpack quantizer, 16 crops of 4 photographs"
$octet quantize $out/model.pt2 --quantizer xnnpack --calibration $out/calibration.pt --output $out/int8.pt2 --report $out/report.json
for backend in onednn xnnpack; do
  step "lower to $backend"
  $octet lower $out/int8.pt2 --backend $backend --output $out/int8.$backend.octet
done
step "classify the held-out photographs"
remarks=$out/remarks.txt
: >$remarks
for backend in onednn xnnpack; do
  mkdir -p $out/$backend
  for input in "$out"/inputs/*.pt; do
    $octet run $out/int8.$backend.octet --inputs "$input" --outputs "$out/$backend/$(basename "$input")" 2>>$remarks || { cat $remarks >&2; exit 1; }
  done
done
awk '!seen[$0]++' $remarks >&2  # prints each remark once, not once per photograph
.venv/bin/python tools/models/demo_table.py $out
