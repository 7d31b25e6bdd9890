// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much packet memory full queues take, compared with the cache that planes on other cores use, too.

use std::path::Path;

use lang::Graph;
use planes::machine::{Machine, Roots};

/// Classes of which the first argument is the number of packets that they hold.
const CLASSES: [&str; 4] = ["Queue", "SimpleQueue", "ThreadSafeQueue", "MixedQueue"];
/// What such an element holds if it does not say.
const USUAL: usize = 1000;
/// Bytes of a frame that are in use at most, without jumbo frames.
const FRAME: usize = 1536;

/// What to say, if full queues do not fit into the shared cache.
pub(crate) fn text(graph: &Graph) -> String {
    let machine = Machine::read(&Roots::below(Path::new("/")));
    let caches = machine.cpus.iter().flat_map(|cpu| &cpu.caches);
    let last = caches.filter_map(|cache| kib(&cache.size)).max().unwrap_or(0) << 10;
    advice(packets(graph), last).unwrap_or_default()
}

fn kib(size: &str) -> Option<usize> {
    size.trim_end_matches('K').parse().ok()
}

/// Packets that all queues hold at most.
fn packets(graph: &Graph) -> usize {
    let queues = graph.elements.iter().filter(|element| CLASSES.contains(&&*element.class));
    queues.map(|element| capacity(&element.config)).fold(0, usize::saturating_add)
}

/// Of a queue's arguments: the first one, or that of the keyword.
fn capacity(config: &str) -> usize {
    let mut arguments = config.split(',').map(str::trim);
    let number = |argument: &str| argument.strip_prefix("CAPACITY").unwrap_or(argument).trim().parse().ok();
    arguments.find_map(number).unwrap_or(USUAL)
}

fn advice(packets: usize, cache: usize) -> Option<String> {
    let bytes = packets.saturating_mul(FRAME);
    (cache > 0 && bytes > cache).then(|| {
        format!(
            "cache: full queues hold {packets} packets, up to {} MiB of frames; the shared\n  cache has {} MiB. Frames beyond it come from memory: smaller queues are faster\n  ('junctor lab interference --part remedies' measures it)\n",
            bytes >> 20,
            cache >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_added_up() {
        let text = "InfiniteSource -> Queue(20000) -> Unqueue -> Queue -> Unqueue -> Queue(SYNC spin, CAPACITY 30) -> Discard;";
        let parsed = lang::load_str("test", text, &elements::options());
        assert_eq!(packets(&parsed.graph.expect("a graph")), 20_000 + USUAL + 30);
    }

    #[test]
    fn only_what_takes_much_of_the_cache_is_mentioned() {
        assert_eq!(advice(1000, 32 << 20), None);
        assert_eq!(advice(1_000_000, 0), None);
        let text = advice(32_768, 32 << 20).expect("advice");
        assert!(text.contains("up to 48 MiB of frames") && text.contains("cache has 32 MiB"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(advice(usize::MAX, 32 << 20).is_some());
    }
}
