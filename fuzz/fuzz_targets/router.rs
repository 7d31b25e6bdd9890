// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any frames through the standard IP router: no panic, and every packet is accounted for.
#![no_main]

use std::time::Duration;

use testbed::account::Accounted;
use testbed::hostile::{Interface, frames_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let interface = |mac, ip: [u8; 4]| Interface { mac, ip: ip.into() };
    let interfaces = [
        interface([0, 0, 0xc0, 0xae, 0x67, 0xef], [18, 26, 4, 24]),
        interface([0, 0, 0xc0, 0x4f, 0x71, 0xef], [18, 26, 7, 1]),
    ];
    let mut router =
        Accounted::new(include_str!("../../conf/ip-router.click"), 32).expect("the standard router");
    for (at, frame) in frames_of(data, &interfaces) {
        router.inject(at, &frame);
    }
    router.run(Duration::from_secs(10));
    router.collect();
    router.check().unwrap_or_else(|why| panic!("{why}"));
});
