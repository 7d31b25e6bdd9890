// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ListenEtherSwitch
//!
//! `ListenEtherSwitch([keyword TIMEOUT])`
//!
//! A learning Ethernet switch like EtherSwitch, with one more output that gets a copy of every frame.
//!
//! **Ports:** any number of push inputs, and one push output more: the last one is there to listen at.
//!
//! **Arguments**
//! * `TIMEOUT` seconds for which a station is remembered after its last frame, default 300.
//!
//! **Drops:** `too-short`, frames without a whole Ethernet header; `no-memory`.
//!
//! **Handlers**
//! * `table`, `count`, `capacity` read, `timeout` read/write, `flush` write: as for EtherSwitch.
//!
//! ```click
//! s :: ListenEtherSwitch;
//! InfiniteSource(DATA \<020000000002 020000000001 0800>, LIMIT 1, STOP true) -> s -> Discard;
//! Idle -> [1] s [1] -> Discard;
//! s[2] -> Discard;
//! ```
//!
//! See also: EtherSwitch, Tee

use element::Class;

use super::ether_switch::{EtherSwitch, HANDLERS};

/// The descriptor.
pub const CLASS: Class = EtherSwitch::with_capabilities(
    Class::new("ListenEtherSwitch", "-/=+", || Box::new(EtherSwitch::new(true)))
        .processing("h/h")
        .flow("#/[^#]")
        .serial("where each station was heard is one table, which every frame changes")
        .handlers(HANDLERS)
        .file(file!()),
);

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn the_listener_hears_everything_once() {
        let text = "i :: TestIn -> e :: ListenEtherSwitch -> o0 :: TestOut; i1 :: TestIn -> [1] e [1] -> o1 :: TestOut;
            e[2] -> o2 :: TestOut;";
        for burst in [1, 32] {
            let [there, back, near]: [&[u8]; 3] =
                [b"\x02bbbbb\x02aaaaa\x08\0", b"\x02aaaaa\x02bbbbb\x08\0", b"\x02aaaaa\x02ccccc\x08\0"];
            let run = Rig::text(text).burst(burst).inputs(&[there, near]).run();
            assert_eq!(
                (run.bytes("o1"), run.bytes("o2")),
                (vec![there.to_vec()], vec![there.to_vec(), near.to_vec()])
            );
            run.give("i1", vec![packet::Packet::copy_of(back).unwrap()]);
            let run = run.again();
            assert_eq!((run.bytes("o0"), run.bytes("o2")), (vec![back.to_vec()], vec![back.to_vec()]));
            assert_eq!((run.bytes("o1"), run.drops("e")), (vec![], vec![]));
        }
    }
}
