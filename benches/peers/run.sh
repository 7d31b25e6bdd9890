#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Our forwarding tables and IP path beside DPDK's, on this machine, in interleaved rounds; prints tables in Markdown.
# Takes three to five minutes where nothing else runs: rte_lpm alone needs a minute or more to load a million routes, and
# LPM=no leaves it and rte_lpm6 out. No part of `make test`.
#
#     benches/peers/run.sh [ROUNDS]         ROUNDS: 7
#
# Needs on Debian: apt-get install --no-install-recommends libdpdk-dev dpdk-doc gcc make pkg-config python3 xz-utils,
# and shared/data beside the repository. As root, huge pages of 2 MB are taken for the run and given back; with
# HUGE_PAGES=no, or where there are none to be had, DPDK's memory is of ordinary pages. All figures are processor time of
# one thread, so that other load disturbs little; caches it does disturb: measure on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-7}
out=$PWD/target/peers

missing=""
for tool in gcc make pkg-config python3 xz cargo; do command -v $tool >/dev/null || missing="$missing $tool"; done
pkg-config --exists libdpdk 2>/dev/null || missing="$missing libdpdk-dev"
[ -d /usr/share/dpdk/examples/l3fwd ] || missing="$missing dpdk-doc"
if [ -n "$missing" ]; then
    echo "missing:$missing" >&2
    echo "install them: apt-get install --no-install-recommends libdpdk-dev dpdk-doc gcc make pkg-config python3 xz-utils" >&2
    exit 2
fi

echo "building" >&2
make -s -C benches/peers/dpdk OUT="$out" >&2
cargo build --quiet --release --package junctor
ours=$(cargo bench --quiet --package junctor-tables --bench peer --no-run --message-format=json |
    python3 -c 'import json,sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and made["target"]["name"] == "peer": print(made["executable"])')
[ -e "$out/data/v6.zipf" ] || "$ours" export "$out/data"

eal="--no-huge -m 3072"
pages=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
if [ "${HUGE_PAGES:-yes}" = yes ] && [ -w $pages ]; then
    before=$(cat $pages)
    trap 'echo $before > $pages' EXIT
    wanted=3600
    echo $((before + wanted)) > $pages || true
    if [ "$(cat $pages)" -ge $((before + wanted)) ]; then eal="--in-memory"; else echo "$before" > $pages; fi
fi

python3 benches/peers/run.py --bin "$out" --ours "$ours" --data "$out/data" --rounds "$rounds" --eal="$eal" ${LPM:+$([ "$LPM" = no ] && echo --without=lpm)}
# l3fwd is asked over its telemetry socket, which --in-memory keeps too.
python3 benches/peers/forward.py --bin "$out" --junctor "$PWD/target/release/junctor" --data "$out/data" --conf "$PWD/conf" \
    --rounds $(((rounds + 1) / 2)) --eal="${eal/3072/2048}"
