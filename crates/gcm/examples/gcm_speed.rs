// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times AES-GCM: nanoseconds per packet by length, key size, number of keys and way of calling, next to `ring` in the same rounds.
//!
//! ```text
//! cargo run --release -p junctor-gcm --example gcm_speed -- [--least] [LENGTH...]
//! ```
//!
//! Each figure is the median of rounds; the subjects take turns, so that a change of the processor's speed meets all of them. With `--least` it is the
//! fastest of all batches, which shows changes of the code on a machine that others use. Packets are copied into the processor's cache before each batch, outside the measured time. Texts lie in buffers of 2 KiB, 50 bytes
//! from their beginning, where ESP over IPv4 and Ethernet has them.

use std::time::{Duration, Instant};

use junctor_gcm::{Implementation, Job, Key};

const BATCH: usize = 32;
const KEYS: usize = 1000;
const BATCHES: usize = 32;
const ROUNDS: usize = 101;
const AAD_LEN: usize = 8;
const BUFFER: usize = 2048;
/// Ethernet, IPv4, SPI and sequence number, initialisation vector.
const TEXT_AT: usize = 14 + 20 + 8 + 8;

#[derive(Clone, Copy)]
struct Subject {
    implementation: Implementation,
    /// In batches, or packet by packet.
    batch: bool,
    seal: bool,
}

struct Bench {
    /// Keys of the kernel and of `ring`.
    keys: [Vec<Key>; 2],
    /// The packets in hand.
    packets: Vec<[u8; BUFFER]>,
    /// Packets as they come, plain or sealed, with the numbers of their keys.
    coming: Vec<([u8; BUFFER], usize)>,
}

impl Bench {
    fn new(key_len: usize) -> Self {
        let keys = |implementation| {
            let key = |number: usize| {
                let mut bytes = vec![number as u8; key_len];
                bytes[..8].copy_from_slice(&(number as u64 * 0x9E37_79B9_7F4A_7C15).to_le_bytes());
                Key::with(implementation, &bytes).expect("an implementation that runs here")
            };
            (0..KEYS).map(key).collect()
        };
        let keys = [keys(Implementation::best()), keys(Implementation::Portable)];
        Self { keys, packets: vec![[0; BUFFER]; BATCH], coming: Vec::new() }
    }

    /// Makes the packets that come: texts of this length under keys at random, sealed if they are to be opened.
    fn prepare(&mut self, seal: bool, key_count: usize, text_len: usize) {
        let mut random = 1u64;
        self.coming.clear();
        for _ in 0..BATCH * BATCHES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pick = ((random >> 33) as usize) % key_count;
            let mut packet = [0x5A; BUFFER];
            if !seal {
                junctor_gcm::seal(&mut [job(&self.keys[0][pick], &mut packet, text_len)]);
            }
            self.coming.push((packet, pick));
        }
    }

    /// Nanoseconds per packet: over all batches, and in the fastest one.
    fn round(&mut self, subject: Subject, text_len: usize) -> [f64; 2] {
        let keys = &self.keys[usize::from(subject.implementation == Implementation::Portable)];
        let (mut spent, mut least) = (Duration::ZERO, Duration::MAX);
        for coming in self.coming.chunks(BATCH) {
            let mut jobs: [Option<Job<'_>>; BATCH] = [const { None }; BATCH];
            for ((packet, (original, pick)), place) in self.packets.iter_mut().zip(coming).zip(&mut jobs) {
                let end = TEXT_AT + text_len + 16;
                packet[..end].copy_from_slice(&original[..end]);
                *place = Some(job(&keys[*pick], packet, text_len));
            }
            let mut jobs = jobs.map(|job| job.expect("a job for each packet"));
            let started = Instant::now();
            match (subject.batch, subject.seal) {
                (true, true) => junctor_gcm::seal(&mut jobs),
                (true, false) => junctor_gcm::open(&mut jobs),
                (false, true) => jobs.iter_mut().for_each(|job| junctor_gcm::seal(std::slice::from_mut(job))),
                (false, false) => {
                    jobs.iter_mut().for_each(|job| junctor_gcm::open(std::slice::from_mut(job)))
                }
            }
            let took = started.elapsed();
            spent += took;
            least = least.min(took);
            assert!(subject.seal || jobs.iter().all(|job| job.outcome().is_ok()));
        }
        [spent.as_nanos() as f64 / self.coming.len() as f64, least.as_nanos() as f64 / BATCH as f64]
    }

    /// Our batch, our single packets, and `ring`.
    fn figures(&mut self, seal: bool, text_len: usize, least: bool) -> [f64; 3] {
        let subjects = [
            (Implementation::best(), true),
            (Implementation::best(), false),
            (Implementation::Portable, false),
        ];
        let mut times = subjects.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for ((implementation, batch), times) in subjects.iter().zip(&mut times) {
                let subject = Subject { implementation: *implementation, batch: *batch, seal };
                times.push(self.round(subject, text_len));
            }
        }
        times.map(|times| {
            let mut times: Vec<f64> = times.iter().map(|time| time[usize::from(least)]).collect();
            times.sort_by(f64::total_cmp);
            times[if least { 0 } else { times.len() / 2 }]
        })
    }
}

fn job<'a>(key: &'a Key, packet: &'a mut [u8; BUFFER], text_len: usize) -> Job<'a> {
    let (head, text) = packet.split_at_mut(TEXT_AT);
    let (text, rest) = text.split_at_mut(text_len);
    Job::new(key, [3; 12], &head[TEXT_AT - 16..][..AAD_LEN], text, &mut rest[..16])
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quiet = words.iter().any(|word| word == "--least");
    let mut lengths: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if lengths.is_empty() {
        lengths = vec![16, 48, 64, 256, 576, 1400];
    }
    assert!(lengths.iter().all(|len| *len <= BUFFER - TEXT_AT - 16), "a text is too long for {BUFFER} bytes");
    let ours = Implementation::best();
    println!("ns per packet, batches of {BATCH}, {ours:?} next to ring");
    println!(
        "{:>4} {:>5} {:>5} {:>5} {:>7} {:>7} {:>7}",
        "key", "bytes", "what", "keys", "batch", "single", "ring"
    );
    for key_len in [16, 32] {
        let mut bench = Bench::new(key_len);
        for text_len in &lengths {
            for (seal, keys) in [(true, 1), (true, KEYS), (false, 1), (false, KEYS)] {
                bench.prepare(seal, keys, *text_len);
                let [batch, single, ring] = bench.figures(seal, *text_len, quiet);
                let (bits, what) = (key_len * 8, if seal { "seal" } else { "open" });
                println!(
                    "{bits:>4} {text_len:>5} {what:>5} {keys:>5} {batch:>7.1} {single:>7.1} {ring:>7.1}"
                );
            }
        }
    }
}
