// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices: everything packets come from and go to.
//!
//! All drivers implement the traits of [`packet::port`]; elements see nothing else of them and reach them through
//! [`SystemProvider`], which finds the best driver that works and can say why.
//!
//! * [`memory`]: wires in this process, a replay that measures, a sink that counts.
//! * [`pcap`]: capture files.
//! * [`tap`]: interfaces of the kernel whose other end we are.
//! * [`raw_ip`]: what this host's stack delivers of one IP protocol.
//! * [`partial`]: checksums that a sender left unfinished, where nobody says so.
//! * [`plane`]: channels to other planes of a deployment.
//! * [`plain`]: a packet socket as a simple program has it, to compare with.
//! * [`af_packet`]: any network interface, by packet sockets.
//! * [`af_xdp`]: network interfaces whose driver has an XDP hook, without a copy of ours.

pub mod af_packet;
pub mod af_xdp;
mod aliases;
mod bpf;
mod commit;
mod expression;
mod keeper;
mod link;
pub mod live;
pub mod memory;
mod netlink;
mod offload;
pub mod opener;
pub mod opening;
pub mod partial;
pub mod pcap;
pub mod plain;
pub mod plane;
mod provider;
pub mod raw_ip;
mod settings;
mod sys;
pub mod tap;
mod urgent;
pub mod vrf;

pub use commit::commit_memory;
pub use keeper::{Keeper, inherited};
pub use provider::SystemProvider;
pub use sys::{Spawn, hold_threads, start_threads_by};

#[cfg(test)]
pub(crate) mod tests {
    /// Tests that count frames of the one memory take turns, each in a thread whose cache is gone before the next.
    pub(crate) fn alone(test: impl FnOnce() + Send) {
        static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
        std::thread::scope(|s| s.spawn(test).join().unwrap());
    }
}
