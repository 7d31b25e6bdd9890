// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet channels between processes, with packets that are copied and lent, whose ends are killed again and again.
//!
//! The test's program starts itself again as the process to be killed.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use junctor_icc::{
    AttachError, ChannelError, Domain, Endpoint, Node, NodeId, Note, PacketReceiver, PacketSender,
};
use rustix::fs::{MemfdFlags, SealFlags};

const KILLS: usize = 100;
const LONG: Option<Duration> = Some(Duration::from_secs(60));
/// Says in its environment what a child is to be.
const ROLE: &str = "JUNCTOR_ICC_TEST_ROLE";
const PLACE: &str = "JUNCTOR_ICC_TEST_PLACE";
const FRAMES: usize = 64;
const FRAME: usize = 512;
const CELLS: u32 = 16;

/// Memory of a sender: frames, of which it knows which are lent.
struct Memory {
    file: std::fs::File,
    readable: OwnedFd,
    free: Rc<RefCell<Vec<usize>>>,
}

/// A frame that is lent; it is free again when this goes.
struct Frame {
    bytes: Vec<u8>,
    index: usize,
    free: Rc<RefCell<Vec<usize>>>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut free = self.free.borrow_mut();
        assert!(!free.contains(&self.index), "a frame came back twice");
        free.push(self.index);
    }
}

impl Memory {
    fn new(seals: SealFlags) -> Memory {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = std::fs::File::from(rustix::fs::memfd_create("test", flags).unwrap());
        file.set_len((FRAMES * FRAME) as u64).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let readable = std::fs::File::open(path).unwrap().into();
        Memory { file, readable, free: Rc::new(RefCell::new((0..FRAMES).collect())) }
    }

    fn sealed() -> Memory {
        Memory::new(SealFlags::SHRINK | SealFlags::GROW)
    }

    /// A packet in a frame, at an odd byte of it.
    fn packet(&self, number: u64) -> Option<(u64, Frame)> {
        let index = self.free.borrow_mut().pop()?;
        let (bytes, offset) = (packet(number), (index * FRAME + number as usize % 61) as u64);
        self.file.write_all_at(&bytes, offset).unwrap();
        Some((offset, Frame { bytes, index, free: self.free.clone() }))
    }

    /// What was in frames is overwritten.
    fn spoil_free(&self) {
        for index in &*self.free.borrow() {
            self.file.write_all_at(&[0xee; FRAME], (index * FRAME) as u64).unwrap();
        }
    }
}

/// Packets of any length up to 300 bytes that say by themselves what is in them.
fn packet(number: u64) -> Vec<u8> {
    let mut packet = vec![number as u8; (number * 31 % 293) as usize + 8];
    packet[..8].copy_from_slice(&number.to_ne_bytes());
    packet
}

fn number_of(got: &[u8]) -> u64 {
    let number = u64::from_ne_bytes(got[..8].try_into().unwrap());
    assert_eq!(got, packet(number), "a packet that nobody sent");
    number
}

fn domain() -> (Domain, String) {
    let place = format!("@junctor-icc-packets-{}-{:?}", std::process::id(), std::thread::current().id());
    let endpoints = [Endpoint::packets(1, "packets", 300, CELLS)];
    (Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap(), place)
}

/// Lends every other packet, and copies the rest. Says whether there was room.
fn send(sender: &mut PacketSender<Frame>, memory: &Memory, number: u64) -> bool {
    let note = Note { timestamp_ns: number, ..Note::default() };
    let room = sender.collect(drop).unwrap();
    if room == 0 {
        return false;
    }
    if number.is_multiple_of(2) {
        let (offset, frame) = memory.packet(number).expect("there are more frames than cells");
        sender.lend(offset, frame, note).map_err(|(why, _)| why).unwrap();
    } else {
        sender.stage(&packet(number), note).unwrap();
    }
    sender.publish();
    true
}

/// The next packet's number.
fn receive(receiver: &mut PacketReceiver) -> Option<u64> {
    let mut buffer = [0; 300];
    let (bytes, note) = receiver.receive(&mut buffer).unwrap()?;
    let number = number_of(&buffer[..bytes]);
    assert_eq!(note.timestamp_ns, number);
    Some(number)
}

#[test]
fn packets_are_lent_and_come_back() {
    let (domain, _) = domain();
    let node = domain.node(1).unwrap();
    let memory = Memory::sealed();
    let mut receiver = node.packet_receiver("packets").unwrap();
    let mut sender = node.packet_lender("packets", memory.readable.as_fd()).unwrap();
    for number in 0..100 {
        assert!(send(&mut sender, &memory, number));
        assert_eq!(receive(&mut receiver), Some(number));
    }
    sender.collect(drop).unwrap();
    assert_eq!((memory.free.borrow().len(), receiver.lost()), (FRAMES, 0));
    // What is not taken stays in the channel when the sender goes, and its frames are free.
    for number in 0..4 {
        assert!(send(&mut sender, &memory, number));
    }
    drop(sender);
    assert_eq!(memory.free.borrow().len(), FRAMES);
    memory.spoil_free();
    // The next sender lends from other memory.
    let other = Memory::sealed();
    let mut sender = node.packet_lender("packets", other.readable.as_fd()).unwrap();
    assert!(send(&mut sender, &other, 4));
    assert_eq!(
        (0..5).map(|_| receive(&mut receiver)).collect::<Vec<_>>(),
        (0..5).map(Some).collect::<Vec<_>>()
    );
    assert_eq!(receiver.lost(), 0);
}

#[test]
fn memory_that_may_shrink_is_not_mapped() {
    let (domain, _) = domain();
    let node = domain.node(1).unwrap();
    let memory = Memory::new(SealFlags::empty());
    let mut sender = node.packet_lender("packets", memory.readable.as_fd()).unwrap();
    assert!(matches!(node.packet_receiver("packets"), Err(AttachError::NotSealed)));
    // A receiver that was there before loses what is lent, and nothing else.
    drop(sender);
    let mut receiver = node.packet_receiver("packets");
    while receiver.is_err() {
        // The seat of the first try is free when the server has come to it; a sender without memory frees the way.
        drop(node.packet_sender::<Vec<u8>>("packets").unwrap());
        receiver = node.packet_receiver("packets");
    }
    let mut receiver = receiver.unwrap();
    sender = node.packet_lender("packets", memory.readable.as_fd()).unwrap();
    for number in 0..4 {
        assert!(send(&mut sender, &memory, number));
    }
    assert_eq!(
        [receive(&mut receiver), receive(&mut receiver), receive(&mut receiver)],
        [Some(1), Some(3), None]
    );
    assert_eq!(receiver.lost(), 2);
}

#[test]
fn limits_are_kept() {
    let (domain, _) = domain();
    let node = domain.node(1).unwrap();
    let mut sender: PacketSender = node.packet_sender("packets").unwrap();
    let mut receiver = node.packet_receiver("packets").unwrap();
    let too_long = Err(ChannelError::TooLong { bytes: 301, longest: 300 });
    assert_eq!(sender.send(&[0; 301], Note::default()), too_long);
    for number in 0..u64::from(CELLS) {
        sender.send(&packet(number), Note { timestamp_ns: number, ..Note::default() }).unwrap();
    }
    assert_eq!(sender.send(b"x", Note::default()), Err(ChannelError::Full));
    assert_eq!(sender.refused(), 1);
    let short = receiver.receive(&mut [0; 4]);
    assert_eq!(short, Err(ChannelError::TooShort { bytes: 8, room: 4 }), "it stays");
    assert!(receiver.wait(LONG).unwrap());
    assert_eq!(receive(&mut receiver), Some(0));
    drop(sender);
    assert!(matches!(node.sender("packets"), Err(AttachError::Kind { found: "packets", .. })));
}

/// A process that is killed and waited for at the end.
struct Killed(Child);

impl Killed {
    fn start(role: &str, place: &str) -> Killed {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_other_process", "--nocapture", "--include-ignored"]);
        command.env(ROLE, role).env(PLACE, place).stdin(Stdio::null()).stdout(Stdio::null());
        Killed(command.spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It is a child that nobody has waited for, so the number is still its own.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What children do; by itself, nothing.
#[test]
#[ignore = "a part of the other tests"]
fn the_other_process() {
    let (Ok(role), Ok(place)) = (std::env::var(ROLE), std::env::var(PLACE)) else { return };
    let node = Node::connect(place, NodeId::new(7, 2)).unwrap();
    match role.as_str() {
        "sender" => {
            let memory = Memory::sealed();
            let mut sender = node.packet_lender("packets", memory.readable.as_fd()).unwrap();
            for number in 0.. {
                while !send(&mut sender, &memory, number) {
                    std::thread::yield_now();
                }
            }
        }
        "receiver" => {
            let mut receiver = node.packet_receiver("packets").unwrap();
            loop {
                receiver.wait(None).unwrap();
                receive(&mut receiver);
            }
        }
        _ => panic!("a role {role}"),
    }
}

#[test]
fn a_hundred_senders_are_killed() {
    let (domain, place) = domain();
    let mut receiver = domain.node(1).unwrap().packet_receiver("packets").unwrap();
    for kill in 0..KILLS {
        let child = Killed::start("sender", &place);
        // Each one begins with packet 0, after whole packets of the one before.
        let (mut next, mut begun) = (None, false);
        let wanted = 50 + kill as u64 * 7 % 200;
        while !(begun && next > Some(wanted)) {
            receiver.wait(LONG).unwrap();
            if let Some(number) = receive(&mut receiver) {
                begun |= number == 0;
                assert!(next.is_none_or(|next| number == next || number == 0), "{next:?}, then {number}");
                next = Some(number + 1);
            }
        }
        drop(child);
        while receiver.peer().present {
            receiver.wait(LONG).unwrap();
            receive(&mut receiver);
        }
    }
    // Only what waited when its sender was killed, and whose memory the server had forgotten for the next one's, may be lost.
    assert_eq!(receiver.lost(), 0);
}

/// Without a server nobody frees the seats of the dead; the kernel informs their senders.
#[test]
fn a_receiver_that_dies_without_a_server_is_noticed() {
    let (domain, place) = domain();
    let mut sender: PacketSender = domain.node(1).unwrap().packet_sender("packets").unwrap();
    assert!(sender.receiver_is_gone(), "there has been none");
    let mut child = Killed::start("receiver", &place);
    let mut number = 0;
    while number < 3 * u64::from(CELLS) {
        let note = Note { timestamp_ns: number, ..Note::default() };
        match sender.send(&packet(number), note) {
            Ok(()) => number += 1,
            Err(why) => {
                assert_eq!(why, ChannelError::Full);
                assert!(child.0.try_wait().unwrap().is_none(), "the receiver has ended");
            }
        }
    }
    assert!(!sender.receiver_is_gone());
    drop(domain);
    assert!(sender.peer().present && !sender.receiver_is_gone());
    drop(child);
    assert!(sender.peer().present, "nobody frees the seat");
    assert!(sender.receiver_is_gone());
}

#[test]
fn a_hundred_receivers_are_killed() {
    let (domain, place) = domain();
    let memory = Memory::sealed();
    let node = domain.node(1).unwrap();
    let mut sender = node.packet_lender("packets", memory.readable.as_fd()).unwrap();
    let mut number = 0;
    for kill in 0..KILLS {
        let child = Killed::start("receiver", &place);
        let until = number + 100 + kill as u64 * 7 % 200;
        while number < until {
            if send(&mut sender, &memory, number) {
                number += 1;
            } else {
                std::thread::yield_now();
            }
        }
        drop(child);
        while send(&mut sender, &memory, number) {
            number += 1;
        }
        // All that was lent to the dead one comes back, once.
        sender.recall(drop);
        assert_eq!(memory.free.borrow().len(), FRAMES);
        memory.spoil_free();
    }
    // What the last one has not taken is there, whole and in order.
    drop(sender);
    let mut receiver = loop {
        match node.packet_receiver("packets") {
            Ok(receiver) => break receiver,
            Err(why) => assert!(why.to_string().contains("receiver already"), "{why}"),
        }
    };
    let mut last = None;
    while let Some(number) = receive(&mut receiver) {
        assert!(last.is_none_or(|last| number == last + 1));
        last = Some(number);
    }
    assert_eq!((last, receiver.lost()), (Some(number - 1), 0));
}
