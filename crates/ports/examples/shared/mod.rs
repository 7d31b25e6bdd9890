// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the measurements on virtual cables have in common.

use std::process::ExitCode;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One of those compared, and its rates in frames a second, round by round.
pub(crate) struct Rounds<'a> {
    pub(crate) name: &'a str,
    pub(crate) frames_per_second: &'a [f64],
}

impl Rounds<'_> {
    /// Median of the ratios to `other`, round by round: what disturbs the machine disturbs neighbours alike.
    fn ratio(&self, other: &Rounds<'_>) -> f64 {
        median(self.frames_per_second.iter().zip(other.frames_per_second).map(|(mine, its)| mine / its))
    }
}

/// Prints medians, ratios to the candidate of number `base`, and all rounds.
pub(crate) fn print_table(title: &str, base: usize, all: &[Rounds<'_>]) {
    println!("{title:<18} {:>8} {:>8}  rounds (Mpps)", "Mpps", "ratio");
    for candidate in all {
        let rates = candidate.frames_per_second.iter();
        let rounds: Vec<String> = rates.clone().map(|r| format!("{:.3}", r / 1e6)).collect();
        let (rate, ratio) = (median(rates.copied()), candidate.ratio(&all[base]));
        println!("{:<18} {:>8.3} {:>8.2}  {}", candidate.name, rate / 1e6, ratio, rounds.join(" "));
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// 60 bytes of UDP from 10.0.1.2 to 10.0.2.2.
pub(crate) fn udp_frame(to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut frame = [to, from].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2]);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend([0, 7, 0, 9, 0, 26, 0, 0]);
    frame.resize(60, 0x55);
    frame
}

/// Keeps this thread on a core.
pub(crate) fn pin(core: usize) {
    // SAFETY: the set is a plain bit mask, read by the kernel.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// The exit status of a measurement; says why it failed.
pub(crate) fn finish(name: &str, result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{name}: {why}");
            ExitCode::FAILURE
        }
    }
}
