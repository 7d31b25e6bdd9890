// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is more than packets there and back: replays, wrong keys, traffic classes.

use lab::rig::wait_for;

use crate::cases::{CBC, Case, Four, GCM, In, OTHERS, Shape};
use crate::site::{PATIENCE, Site};

const TUNNEL: Shape = Shape::tunnel(Four, Four);
const WAY: &str = "way/s.switch";
const BACK: &str = "back/s.switch";

/// Waits until a counter of Junctor's and one of Linux' have grown from what they were by so much.
fn wait_for_counts(site: &mut Site, before: [u64; 2], (reason, name): (&str, &str), more: [u64; 2]) {
    let wanted = [before[0] + more[0], before[1] + more[1]];
    let mut found = before;
    let waited = wait_for("counters", PATIENCE, || {
        found = [site.drops("dec", reason), site.xfrm_stat(name)];
        found[0] >= wanted[0] && found[1] >= wanted[1]
    });
    waited.unwrap_or_else(|why| panic!("{why}: {reason} and {name} are {found:?}, not {wanted:?}"));
    assert_eq!(found, wanted, "{reason} and {name}");
}

/// Each packet comes twice: both sides drop the second.
pub fn replays(site: &mut Site, spi: u32) {
    let counters = ("replayed", "XfrmInStateSeqError");
    for (n, words) in ["", "replay-window 128 flag esn"].into_iter().enumerate() {
        let case = Case { words, ..Case::new(&GCM, TUNNEL, spi + 2 * n as u32) };
        site.set(&case, "");
        let before = [site.drops("dec", counters.0), site.xfrm_stat(counters.1)];
        for handler in [WAY, BACK] {
            site.write(handler, "1");
        }
        for _ in 0..5 {
            site.echo(&case, 100);
        }
        for handler in [WAY, BACK] {
            site.write(handler, "0");
        }
        wait_for_counts(site, before, counters, [5, 5]);
        assert!(site.read(&format!("db.sas {}", case.id(In))).contains("replayed 5 "));
    }
}

/// Both sides have other keys: neither takes what the other sends, and each says why.
pub fn wrong_keys(site: &mut Site, spi: u32) {
    let counters = ("bad-icv", "XfrmInStateProtoError");
    for (n, algorithm) in [&GCM, &CBC, &OTHERS[7]].into_iter().enumerate() {
        let case = Case::new(algorithm, TUNNEL, spi + 2 * n as u32);
        site.set(&case, "");
        site.set_ours(&Case { seed: 2, ..case.clone() });
        let before = [site.drops("dec", counters.0), site.xfrm_stat(counters.1)];
        site.send(&case, 100);
        site.attempt(&format!("ping -n -c 1 -W 0.1 -I {} {}", case.target(), case.host()));
        wait_for_counts(site, before, counters, [1, 1]);
        site.set_ours(&case);
        site.echo(&case, 100);
    }
}

/// What a ping with a traffic class shows: of Junctor's outer header, of that of Linux, and of what Junctor unpacked.
fn classes(site: &mut Site, case: &Case<'_>, class: u8) -> Option<[u8; 3]> {
    let (_, came) = site.ping(&format!("-c 1 -W 1 -Q {class:#x} {}", case.target()));
    let files = ["sent.pcap", "got.pcap", "opened.pcap"];
    came.then(|| files.map(|file| site.captured(file).last().unwrap()[1]))
}

/// DSCP and ECN between outer and inner headers (RFC 2983, RFC 6040).
pub fn traffic_classes(site: &mut Site, spi: u32) {
    const CE: &str = "2";
    const OTHER: &str = "3";
    let base = Case::new(&GCM, TUNNEL, spi);
    let both = |words| Case { words, ..base.clone() };
    let linux = Case { theirs: ["decap-dscp"; 2].map(|_| "flag decap-dscp"), ..base.clone() };
    let ours = Case { ours: ["flag decap-dscp"; 2], ..base.clone() };
    // What a test does to packets from Linux and to it, the ping's class, what is seen.
    let table = [
        ("as they are", base.clone(), ["0", "0"], 0xb9, Some([0xb9, 0xb9, 0xb9])),
        ("congestion on the way in", base.clone(), [CE, "0"], 0xba, Some([0xba, 0xba, 0xbb])),
        ("congestion at both", base.clone(), ["0", CE], 0xba, Some([0xbb, 0xba, 0xbb])),
        ("congestion that the sender does not know", base.clone(), [CE, "0"], 0xb8, None),
        ("no ECN", both("flag noecn"), ["0", "0"], 0xb9, Some([0xb8, 0xb8, 0xb9])),
        ("Linux takes DSCP", linux, ["0", OTHER], 0xb9, Some([0x29, 0x29, 0x29])),
        ("Junctor takes DSCP", ours, [OTHER, "0"], 0xb9, Some([0xb9, 0xb9, 0x29])),
        ("no DSCP", both("extra-flag dont-encap-dscp"), ["0", "0"], 0xb9, Some([0x01, 0x01, 0xb9])),
    ];
    for (n, (name, case, [way, back], class, wanted)) in table.into_iter().enumerate() {
        let case = Case { spi: spi + 2 * n as u32, ..case };
        site.set(&case, "");
        site.write(WAY, way);
        site.write(BACK, back);
        let lost = site.drops("dec", "ecn-lost");
        assert_eq!(classes(site, &case, class), wanted, "{name}");
        for handler in [WAY, BACK] {
            site.write(handler, "0");
        }
        assert_eq!(site.drops("dec", "ecn-lost") - lost, u64::from(wanted.is_none()), "{name}");
    }
}
