// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of decoding zebra's stream: `cargo bench -p junctor-control --bench fpm`.
//!
//! The routes are RIPE NCC RIS, peer AS3333, 2026-05-11, from `shared/data` next to the repository. Without them, a million synthetic /24 networks
//! serve. Each figure is the median of interleaved rounds, with the best round after it. Changes are made and dropped, as by a reader that ignores
//! them. Nothing is read from a socket.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use junctor_control::Destination;
use junctor_control::counters::Tally;
use junctor_control::fpm::Session;
use junctor_control::fpm::sample::Stream;
use wire::addr::Prefix4;

const ROUNDS: usize = 15;
/// What the feed reads at a time.
const READ_BYTES: usize = 256 << 10;

fn real_routes() -> Option<Vec<(Destination, u32)>> {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let name = "shared/data/v4-ris-as3333-20260511.txt.xz";
    let path = from.ancestors().map(|dir| dir.join(name)).find(|path| path.exists())?;
    let out = Command::new("xz").arg("-dc").arg(path).output().ok().filter(|out| out.status.success())?;
    let text = String::from_utf8(out.stdout).ok()?;
    let route = |line: &str| {
        let (prefix, id) = line.split_once(' ')?;
        Some((Destination::V4(prefix.parse().ok()?), id.parse().ok()?))
    };
    text.lines().map(route).collect()
}

fn synthetic_routes() -> Vec<(Destination, u32)> {
    let network = |n: u32| Prefix4::new(Ipv4Addr::from_bits(0x0b00_0000 + (n << 8)), 24).expect("len <= 32");
    (0..1_000_000).map(|n| (Destination::V4(network(n)), n % 256)).collect()
}

/// Decodes a whole stream as the feed does, and returns the time.
fn decode(stream: &[u8]) -> Duration {
    let (mut changes, mut tally) = (Vec::with_capacity(READ_BYTES / 50), Tally::default());
    let mut session = Session::new(Duration::from_secs(1), Duration::ZERO, &mut changes);
    let begin = Instant::now();
    let mut rest = stream;
    while !rest.is_empty() {
        let taken = session
            .take(&rest[..rest.len().min(READ_BYTES)], Duration::ZERO, &mut changes, &mut tally)
            .expect("a good stream");
        black_box(&changes);
        changes.clear();
        rest = &rest[taken..];
    }
    black_box(&tally);
    begin.elapsed()
}

fn main() {
    let routes = real_routes().unwrap_or_else(|| {
        println!("shared/data is absent (or xz is): synthetic routes");
        synthetic_routes()
    });
    let (mut objects, mut replaced, mut hops) = (Stream::default(), Stream::default(), Stream::default());
    for (prefix, id) in &routes {
        objects.route(*prefix, id + 1, false);
        replaced.route(*prefix, id + 1, true);
        hops.route_by_hop(*prefix, Ipv4Addr::from_bits(0x0a00_0000 | id), 3);
    }
    let forms = [
        ("routes by next-hop objects", &objects, 1),
        ("the same, each after its withdrawal", &replaced, 2),
        ("routes by a hop", &hops, 1),
    ];
    let mut times = forms.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, stream, _), times) in forms.iter().zip(&mut times) {
            times.push(decode(&stream.bytes));
        }
    }
    println!("{} routes; ns a message: median (best); million routes/s by the median", routes.len());
    for ((name, _, messages), times) in forms.iter().zip(&mut times) {
        times.sort_unstable();
        let of = |time: Duration| time.as_secs_f64() * 1e9 / routes.len() as f64;
        let (median, best) = (of(times[ROUNDS / 2]), of(times[0]));
        let each = f64::from(*messages);
        println!("{name:40} {:6.1} ({:.1})  {:5.1}", median / each, best / each, 1e3 / median);
    }
}
