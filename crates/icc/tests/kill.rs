// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two processes over one channel, either of which is killed again and again: the other goes on, its successor finds the channel whole,
//! and nothing is left behind.
//!
//! The test's program starts itself again as the process to be killed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use junctor_icc::{BlockWriter, ChannelError, Domain, Endpoint, Node, NodeId, Receiver, Sender};

const KILLS: usize = 100;
/// Bytes of the longest block.
const BLOCK: usize = 5000;
const LONG: Option<Duration> = Some(Duration::from_secs(60));
/// Says in its environment what a child is to be.
const ROLE: &str = "JUNCTOR_ICC_TEST_ROLE";
const PLACE: &str = "JUNCTOR_ICC_TEST_PLACE";

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

/// Messages of any length up to 300 bytes that say by themselves what is in them.
fn message(number: u64) -> Vec<u8> {
    let mut message = vec![number as u8; (number * 31 % 293) as usize + 8];
    message[..8].copy_from_slice(&number.to_ne_bytes());
    message
}

fn number_of(message_got: &[u8]) -> u64 {
    let number = u64::from_ne_bytes(message_got[..8].try_into().unwrap());
    assert_eq!(message_got, message(number), "a message that nobody sent");
    number
}

/// What children do; by itself, nothing.
#[test]
#[ignore = "a part of the other tests"]
fn the_other_process() {
    let (Ok(role), Ok(place)) = (std::env::var(ROLE), std::env::var(PLACE)) else { return };
    if role == "server" {
        let endpoints = [Endpoint::messages(1, "messages", 300, 16)];
        let _domain = Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap();
        loop {
            std::thread::park();
        }
    }
    let node = Node::connect(place, NodeId::new(7, 2)).unwrap();
    match role.as_str() {
        "sender" => send_for_ever(&mut node.sender("messages").unwrap()),
        "receiver" => receive_for_ever(&mut node.receiver("messages").unwrap()),
        "writer" => write_for_ever(&mut node.block_writer("blocks").unwrap()),
        _ => panic!("a role {role}"),
    }
}

fn send_for_ever(sender: &mut Sender) {
    let mut number = 0;
    loop {
        match sender.send(&message(number)) {
            Ok(()) => number += 1,
            Err(ChannelError::Full) => std::thread::yield_now(),
            Err(why) => panic!("{why}"),
        }
    }
}

fn receive_for_ever(receiver: &mut Receiver) {
    loop {
        receiver.wait(None).unwrap();
        receiver
            .receive_many(7, |message| {
                number_of(message);
            })
            .unwrap();
    }
}

/// Blocks of any length, all of whose bytes are the same.
fn write_for_ever(writer: &mut BlockWriter) {
    for number in 0.. {
        writer.publish(&vec![number as u8; number * 31 % BLOCK]).unwrap();
    }
}

fn domain() -> (Domain, String) {
    let place = format!("@junctor-icc-kill-{}-{:?}", std::process::id(), std::thread::current().id());
    let endpoints = [Endpoint::messages(1, "messages", 300, 16)];
    (Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap(), place)
}

#[test]
fn a_hundred_senders_are_killed() {
    let (domain, place) = domain();
    let mut receiver = domain.node(1).unwrap().receiver("messages").unwrap();
    let mut successors = 0;
    for kill in 0..KILLS {
        let before = receiver.peer().attached;
        let child = Killed::start("sender", &place);
        // Each one begins with message 0, after whole messages of the one before.
        let (mut next, mut begun) = (None, false);
        let wanted = 50 + kill as u64 * 7 % 200;
        while !(begun && next > Some(wanted)) {
            receiver.wait(LONG).unwrap();
            let each = |message: &[u8]| {
                let number = number_of(message);
                begun |= number == 0;
                assert!(next.is_none_or(|next| number == next || number == 0), "{next:?}, then {number}");
                next = Some(number + 1);
            };
            receiver.receive_many(64, each).unwrap();
        }
        successors += u64::from(receiver.peer().attached == before + 1);
        drop(child);
        while receiver.peer().present {
            receiver.wait(LONG).unwrap();
            // Makes room for nobody; what is there stays whole.
            receiver
                .receive_many(1, |message| {
                    number_of(message);
                })
                .unwrap();
        }
    }
    assert_eq!(successors, KILLS as u64);
}

#[test]
fn a_hundred_receivers_are_killed() {
    let (domain, place) = domain();
    let mut sender = domain.node(1).unwrap().sender("messages").unwrap();
    let (mut number, mut refused) = (0u64, 0u64);
    for kill in 0..KILLS {
        let child = Killed::start("receiver", &place);
        let until = number + 100 + kill as u64 * 7 % 200;
        // Only a receiver that lives makes room for so many.
        while number < until {
            match sender.send(&message(number)) {
                Ok(()) => number += 1,
                Err(ChannelError::Full) => {
                    refused += 1;
                    std::thread::yield_now();
                }
                Err(why) => panic!("{why}"),
            }
        }
        drop(child);
        // A sender never waits: with nobody to receive, it is refused.
        while sender.send(&message(number)) != Err(ChannelError::Full) {
            number += 1;
        }
        refused += 1;
    }
    assert_eq!(sender.refused(), refused);
    // All that the last one has not taken is there, whole and in order.
    let mut receiver = loop {
        match domain.node(3).unwrap().receiver("messages") {
            Ok(receiver) => break receiver,
            Err(why) => assert!(why.to_string().contains("receiver already"), "{why}"),
        }
    };
    let mut last = None;
    while receiver
        .receive_many(64, |message| {
            let number = number_of(message);
            assert!(last.is_none_or(|last| number == last + 1));
            last = Some(number);
        })
        .unwrap()
        > 0
    {}
    assert_eq!(last, Some(number - 1));
}

/// Readers go on with what is there, and each successor goes on with the numbers.
#[test]
fn a_hundred_writers_are_killed() {
    let place = format!("@junctor-icc-kill-blocks-{}", std::process::id());
    let endpoints = [Endpoint::blocks(1, "blocks", BLOCK as u32)];
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap();
    let node = domain.node(1).unwrap();
    let (mut readers, mut block) = ([(); 2].map(|()| node.block_reader("blocks").unwrap()), Vec::new());
    let mut last = 0;
    for kill in 0..KILLS as u64 {
        let child = Killed::start("writer", &place);
        let wanted = last + 50 + kill * 7 % 200;
        while last < wanted {
            match readers[(last % 2) as usize].read(&mut block) {
                Ok(number) => {
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                }
                Err(why) => {
                    assert!(matches!(why, ChannelError::Nothing | ChannelError::Overtaken(_)), "{why}");
                }
            }
            assert!(block.iter().all(|byte| *byte == block[0]), "a block that nobody wrote");
        }
        drop(child);
        // The newest is whole, whenever its writer died.
        last = readers[0].read(&mut block).unwrap();
        assert!(block.iter().all(|byte| *byte == block[0]), "a block that nobody wrote");
        while readers[0].writer().present {
            std::thread::yield_now();
        }
    }
    assert_eq!(readers[1].writer().attached, KILLS as u64);
}

/// Channels need the node that serves the domain only to attach; the next one takes the place of its socket.
#[test]
fn a_hundred_serving_nodes_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("domain");
    let place = path.to_str().unwrap();
    for kill in 0..KILLS as u64 {
        let mut server = Killed::start("server", place);
        let connect = || Node::connect(place, NodeId::new(7, 2));
        let node = loop {
            match connect() {
                Ok(node) => break node,
                Err(_) => assert!(server.0.try_wait().unwrap().is_none(), "the serving node has ended"),
            }
            std::thread::yield_now();
        };
        let (mut sender, mut receiver) =
            (node.sender("messages").unwrap(), node.receiver("messages").unwrap());
        sender.send(&message(kill)).unwrap();
        assert!(node.is_served());
        drop(server);
        assert!(!node.is_served());
        sender.send(&message(kill + 1)).unwrap();
        let mut got = Vec::new();
        while got.len() < 2 {
            receiver.wait(LONG).unwrap();
            receiver.receive_many(9, |message| got.push(number_of(message))).unwrap();
        }
        assert_eq!(got, [kill, kill + 1]);
        assert!(node.receiver("messages").unwrap_err().to_string().contains("has ended"));
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "the last one's socket, which a next one would replace"
    );
}

/// The kernel's list of what this process has mapped and opened knows of no region when all ends are gone.
#[test]
fn nothing_is_left_behind() {
    let regions = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("junctor-icc") && line.contains("memfd:")).count()
    };
    let (domain, place) = domain();
    let node = Node::connect(&place, NodeId::new(7, 2)).unwrap();
    let ends = (node.sender("messages").unwrap(), node.receiver("messages").unwrap());
    let fd: OwnedFd = domain.socket().unwrap();
    assert!(fd.as_raw_fd() > 2);
    if std::env::var_os("NEXTEST").is_some() {
        assert_eq!(regions(), 3, "one for each end, and the server's");
    }
    drop((ends, domain, node));
    if std::env::var_os("NEXTEST").is_some() {
        assert_eq!(regions(), 0);
    }
}
