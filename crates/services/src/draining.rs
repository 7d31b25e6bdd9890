// SPDX-License-Identifier: MIT OR Apache-2.0
//! A router that ends for another process first delivers what it has received.

use std::time::{Duration, Instant};

use engine::Control;
use engine::stats::{HELD, Samples};

/// Between two looks. Each look is a message to all workers, and between two messages a worker runs all its tasks.
const EVERY: Duration = Duration::from_millis(1);
/// Looks in turn that find nothing moved and nothing held, as one worker may still have to take what another has put down for it.
const SETTLED: u32 = 2;
/// Looks, where elements hold packets for longer, or make some of their own.
const MOST: u32 = 100;
/// For all of them, where the kernel lets workers wait for a processor.
const LONGEST: Duration = Duration::from_secs(2);

/// Waits until no packet is on its way any more. To be called when devices receive nothing new.
pub(crate) fn drain(control: &Control) {
    let (begun, mut samples) = (Instant::now(), Samples::default());
    let (mut before, mut settled) = (u64::MAX, 0);
    for _ in 0..MOST {
        if samples.take(control).is_none() || begun.elapsed() > LONGEST {
            return;
        }
        let (mut moved, mut held) = (0_u64, 0);
        for worker in &samples.workers {
            moved += worker.outputs.iter().map(|output| output.packets).sum::<u64>();
            moved += worker.drops.iter().map(|(_, _, dropped)| dropped).sum::<u64>();
            held += worker
                .stats
                .iter()
                .filter(|(_, stat, _)| std::ptr::eq(*stat, &HELD))
                .map(|(_, _, n)| n)
                .sum::<u64>();
        }
        settled = if held == 0 && moved == before { settled + 1 } else { 0 };
        if settled == SETTLED {
            return;
        }
        before = moved;
        std::thread::sleep(EVERY);
    }
}
