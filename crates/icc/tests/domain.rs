// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints of a domain, as nodes of one process use them: attaching, rights, seats, waiting, resetting.

use std::os::fd::OwnedFd;
use std::time::Duration;

use junctor_icc::{
    AttachError, ChannelError, Domain, Endpoint, Node, NodeId, Peer, Rights, Role, ServeError, Width,
};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn endpoints() -> [Endpoint; 3] {
    [
        Endpoint::messages(1, "commands", 200, 4),
        Endpoint::scalars(2, "credits", Width::Bits16, 8),
        Endpoint::counters(3, "statistics", 100),
    ]
}

fn domain() -> Domain {
    Domain::serve(NodeId::new(7, 1), &endpoints(), None).unwrap()
}

#[test]
fn messages_arrive_in_order_and_too_many_are_counted() {
    let domain = domain();
    let (near, far) = (domain.node(2).unwrap(), domain.node(3).unwrap());
    let (mut sender, mut receiver) = (near.sender("commands").unwrap(), far.receiver("1").unwrap());
    assert_eq!(receiver.receive(&mut [0; 200]), Ok(None));
    assert_eq!(sender.send(&[0; 201]), Err(ChannelError::TooLong { bytes: 201, longest: 200 }));
    // 16 cells, of which each of these takes four.
    let messages: Vec<Vec<u8>> = (0..6u8).map(|number| vec![number; 200]).collect();
    assert_eq!(sender.send_many(messages.iter().map(Vec::as_slice)), Ok(4));
    assert_eq!(
        (sender.send(&[9; 200]), sender.send_many([&[9u8; 3][..]])),
        (Err(ChannelError::Full), Err(ChannelError::Full))
    );
    assert_eq!(sender.refused(), 3);
    let mut buffer = [0; 200];
    assert_eq!(receiver.receive(&mut buffer[..10]), Err(ChannelError::TooShort { bytes: 200, room: 10 }));
    assert_eq!((receiver.next_bytes(), receiver.receive(&mut buffer)), (Ok(Some(200)), Ok(Some(200))));
    assert_eq!(buffer, [0; 200]);
    sender.send(b"").unwrap();
    let mut got = Vec::new();
    assert_eq!(receiver.receive_many(3, |message| got.push(message.to_vec())), Ok(3));
    assert_eq!(receiver.receive_many(3, |message| got.push(message.to_vec())), Ok(1));
    assert_eq!(got, [&messages[1][..], &messages[2], &messages[3], b""]);
}

#[test]
fn who_may_wait_for_room_gets_it() {
    let domain = domain();
    let node = domain.node(2).unwrap();
    let (mut sender, mut receiver) = (node.sender("commands").unwrap(), node.receiver("commands").unwrap());
    while sender.send(&[1; 200]).is_ok() {}
    assert_eq!(sender.send_within(&[2; 200], Duration::ZERO), Err(ChannelError::Full));
    assert_eq!(sender.send_within(&[2; 200], Duration::from_millis(1)), Err(ChannelError::Full));
    assert_eq!(
        sender.send_within(&[2; 201], Duration::MAX),
        Err(ChannelError::TooLong { bytes: 201, longest: 200 })
    );
    assert_eq!(sender.refused(), 3);
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send_within(&[2; 200], Duration::MAX).unwrap());
        let mut taken = 0;
        while taken < 5 {
            receiver.wait(LONG).unwrap();
            taken += receiver.receive_many(1, |message| assert_eq!(message.len(), 200)).unwrap();
        }
    });
    assert_eq!(sender.refused(), 3);
}

#[test]
fn scalars_keep_to_their_width() {
    let node = domain().node(2).unwrap();
    // The server has ended: nothing can be attached any more.
    assert!(matches!(node.scalar_sender("credits"), Err(AttachError::Lost(_))));
    let domain = domain();
    let node = domain.node(2).unwrap();
    let (mut sender, mut receiver) =
        (node.scalar_sender("credits").unwrap(), node.scalar_receiver("credits").unwrap());
    assert_eq!(sender.send(1 << 16), Err(ChannelError::TooLarge { value: 1 << 16, max: 0xffff }));
    assert_eq!(sender.send_many(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), Ok(8));
    assert_eq!((sender.send(9), sender.refused()), (Err(ChannelError::Full), 2));
    assert_eq!((receiver.receive(), receiver.receive()), (Ok(Some(1)), Ok(Some(2))));
    let mut got = Vec::new();
    assert_eq!(receiver.receive_many(99, |value| got.push(value)), Ok(6));
    assert_eq!((got, receiver.receive()), (vec![3, 4, 5, 6, 7, 8], Ok(None)));
}

#[test]
fn counters_have_one_writer_and_many_readers() {
    let domain = domain();
    let node = domain.node(2).unwrap();
    let readers = [node.counter_reader("statistics").unwrap(), node.counter_reader("3").unwrap()];
    let mut counters = Vec::new();
    assert_eq!(readers[0].read(&mut counters), Err(ChannelError::Nothing));
    let mut writer = node.counter_writer("statistics").unwrap();
    assert!(matches!(node.counter_writer("statistics"), Err(AttachError::Busy { .. })));
    writer.publish(&[1, 2, 3]).unwrap();
    assert!(matches!(writer.publish(&[0; 101]), Err(ChannelError::TooLong { .. })));
    for reader in &readers {
        assert_eq!((reader.read(&mut counters), &counters), (Ok(1), &vec![1, 2, 3]));
    }
    // Another writer goes on with the numbers.
    drop(writer);
    let mut writer = node.counter_writer("statistics").unwrap();
    writer.publish(&[4]).unwrap();
    assert_eq!((readers[1].read(&mut counters), &counters), (Ok(2), &vec![4]));
}

/// Who looks at the other side and then waits hears of what happened in between: each of these waits would have no end.
#[test]
fn what_happens_between_a_look_and_a_wait_is_not_missed() {
    let domain = domain();
    let mut receiver = domain.node(2).unwrap().receiver("commands").unwrap();
    let first = domain.node(3).unwrap().sender("commands").unwrap();
    assert_eq!(receiver.wait(None), Ok(false), "one has come since the receiver came itself");
    assert_eq!(receiver.peer(), Peer { present: true, attached: 1 });
    drop(first);
    let second = loop {
        // The seat is free once the server has heard it.
        if let Ok(second) = domain.node(4).unwrap().sender("commands") {
            break second;
        }
    };
    assert_eq!(receiver.wait(None), Ok(false), "another one has come");
    assert_eq!(receiver.peer(), Peer { present: true, attached: 2 });
    drop(second);
    assert_eq!(receiver.wait(None), Ok(false), "it goes");
    assert_eq!(receiver.wait(NOW), Ok(false));
}

#[test]
fn what_cannot_be_attached_is_named() {
    let domain = domain();
    let node = domain.node(2).unwrap();
    let why = |result: Result<(), AttachError>| result.unwrap_err().to_string();
    assert_eq!(why(node.sender("nothing").map(drop)), "node 7:1 has no endpoint 'nothing'");
    assert_eq!(why(node.sender("credits").map(drop)), "endpoint 'credits' carries scalars, not messages");
    assert_eq!(why(node.counter_reader("1").map(drop)), "endpoint '1' carries messages, not counters");
    // Who was refused has no seat.
    let _first = node.receiver("commands").unwrap();
    let pid = std::process::id();
    assert_eq!(
        why(node.receiver("commands").map(drop)),
        format!("endpoint 'commands' has a receiver already, process {pid}")
    );
    let other = Node::over(domain.socket().unwrap(), NodeId::new(8, 2));
    assert_eq!(why(other.sender("commands").map(drop)), "that is domain 7, not 8");
    assert!(Node::over(domain.socket().unwrap(), NodeId::new(0, 2)).sender("commands").is_ok());
    let nowhere = Node::connect("/nowhere/at/all", NodeId::new(7, 2)).map(drop);
    assert!(why(nowhere).starts_with("cannot reach the domain at /nowhere/at/all"));
}

#[test]
fn seats_are_given_back_and_the_other_side_sees_it() {
    let domain = domain();
    let near = domain.node(2).unwrap();
    let mut receiver = near.receiver("commands").unwrap();
    assert_eq!(receiver.peer(), Peer { present: false, attached: 0 });
    let mut sender = domain.node(3).unwrap().sender("commands").unwrap();
    assert_eq!(receiver.peer(), Peer { present: true, attached: 1 });
    sender.send(b"last words").unwrap();
    drop(sender);
    // The message first, then news of the sender.
    assert_eq!(receiver.wait(LONG), Ok(true));
    assert_eq!(receiver.receive(&mut [0; 200]), Ok(Some(10)));
    while receiver.peer().present {
        assert_eq!(receiver.wait(LONG), Ok(false));
    }
    let mut sender = domain.node(4).unwrap().sender("commands").unwrap();
    assert_eq!(
        (receiver.peer(), sender.peer()),
        (Peer { present: true, attached: 2 }, Peer { present: true, attached: 1 })
    );
    sender.send(b"more").unwrap();
    assert_eq!(receiver.receive(&mut [0; 200]), Ok(Some(4)));
}

#[test]
fn a_receiver_sleeps_until_a_message_comes() {
    let domain = domain();
    let node = domain.node(2).unwrap();
    let (mut sender, mut receiver) = (node.sender("commands").unwrap(), node.receiver("commands").unwrap());
    assert_eq!(receiver.wait(NOW), Ok(false));
    let rounds = 2000u32;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..rounds {
                while sender.send(&number.to_ne_bytes()) == Err(ChannelError::Full) {
                    std::thread::yield_now();
                }
                if number % 7 == 0 {
                    std::thread::yield_now();
                }
            }
            sender
        });
        let mut next = 0;
        while next < rounds {
            // Wakes that are not for a message (the sender came) are allowed, those that never come are not.
            receiver.wait(None).unwrap();
            let each = |message: &[u8]| {
                assert_eq!(message, next.to_ne_bytes());
                next += 1;
            };
            receiver.receive_many(5, each).unwrap();
        }
    });
}

#[test]
fn an_event_loop_may_sleep_on_the_descriptor() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let domain = domain();
    let node = domain.node(2).unwrap();
    let (mut sender, mut receiver) = (node.sender("commands").unwrap(), node.receiver("commands").unwrap());
    while receiver.wait(NOW) != Ok(false) {}
    let readable = |receiver: &junctor_icc::Receiver, seconds| {
        let mut fds = [PollFd::from_borrowed_fd(receiver.fd().unwrap(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
    };
    assert_eq!(receiver.announce(), Ok(true));
    sender.send(b"a").unwrap();
    assert!(readable(&receiver, 60));
    assert_eq!(receiver.announce(), Ok(false));
}

#[test]
fn a_reset_gives_the_old_channel_up() {
    let domain = domain();
    let (near, far) = (domain.node(2).unwrap(), domain.node(3).unwrap());
    let (mut sender, mut receiver) = (near.sender("commands").unwrap(), far.receiver("commands").unwrap());
    sender.send(b"old").unwrap();
    assert!(matches!(near.reset("statistics", Role::Receiver), Err(AttachError::Denied { .. })));
    // Only who has the seat, or takes it.
    assert!(matches!(near.reset("commands", Role::Receiver), Err(AttachError::Busy { .. })));
    far.reset("commands", Role::Receiver).unwrap();
    assert_eq!(sender.send(b"x"), Err(ChannelError::GivenUp));
    // What was there before is delivered.
    assert_eq!(receiver.wait(LONG), Err(ChannelError::GivenUp));
    assert_eq!(receiver.receive(&mut [0; 200]), Ok(Some(3)));
    assert_eq!(receiver.receive(&mut [0; 200]), Err(ChannelError::GivenUp));
    let (mut again, mut there) = (near.sender("commands").unwrap(), far.receiver("commands").unwrap());
    // Ends of the old channel have no say in the new one.
    drop((sender, receiver));
    again.send(b"new").unwrap();
    assert_eq!(there.receive(&mut [0; 200]), Ok(Some(3)));
    assert!(matches!(near.sender("commands"), Err(AttachError::Busy { .. })));
}

#[test]
fn one_socket_serves_one_domain_and_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("domain");
    let serve = || Domain::serve(NodeId::new(7, 1), &endpoints(), Some(&path));
    let first = serve().unwrap();
    let why = serve().unwrap_err();
    assert!(matches!(why, ServeError::InUse(_)), "{why}");
    let node = Node::connect(&path, NodeId::new(7, 2)).unwrap();
    node.sender("commands").unwrap().send(b"x").unwrap();
    assert!(node.is_served());
    drop(first);
    assert!(!path.exists() && !node.is_served());
    // A socket left by a process that was killed is replaced; another file is not.
    let left = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(left);
    assert!(path.exists());
    drop(serve().unwrap());
    std::fs::write(&path, "mine").unwrap();
    assert!(serve().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_name_without_a_file_will_do() {
    let name = format!("@junctor-icc-test-{}", std::process::id());
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints(), Some(name.as_ref())).unwrap();
    let why = Domain::serve(NodeId::new(7, 1), &endpoints(), Some(name.as_ref())).unwrap_err();
    assert!(matches!(why, ServeError::InUse(_)), "{why}");
    assert!(Node::connect(&name, NodeId::new(7, 2)).unwrap().sender("commands").is_ok());
    drop(domain);
}

#[test]
fn endpoints_that_cannot_be_are_refused() {
    let twice = [Endpoint::counters(1, "a", 1), Endpoint::counters(1, "b", 1)];
    let why = Domain::serve(NodeId::new(1, 1), &twice, None).unwrap_err().to_string();
    assert!(why.contains("has the port or the name of endpoint 1"), "{why}");
}

/// Requests that no node makes. Each client gets an answer or is disconnected, and others are served.
#[test]
fn nonsense_on_the_socket_harms_nobody() {
    use rustix::net::{RecvFlags, SendFlags, recv, send};
    let domain = domain();
    let mut seed = 1u64;
    for round in 0..200 {
        let socket: OwnedFd = domain.socket().unwrap();
        let length = [0, 1, 95, 96, 97, 4096][round % 6];
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u8
        })
        .take(length)
        .collect();
        if length >= 96 && round % 4 > 0 {
            bytes[..4].copy_from_slice(&u32::from_be_bytes(*b"ICC1").to_ne_bytes());
            bytes[4..8].copy_from_slice(&1u32.to_ne_bytes());
            bytes[8..12].copy_from_slice(&(round as u32 % 4).to_ne_bytes());
        }
        // More than it takes before somebody reads the answers.
        for _ in 0..3 {
            let _ = send(&socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        if round % 3 == 0 {
            let _ = recv(&socket, &mut [0u8; 64][..], RecvFlags::DONTWAIT);
        }
    }
    assert!(domain.node(2).unwrap().sender("commands").is_ok());
}

#[test]
fn rights_are_asked_of_the_kernel() {
    let rights = Rights { uid: 4_000_001, gid: 4_000_002, mode: 0o640 };
    let endpoints = endpoints().map(|endpoint| endpoint.rights(rights));
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints, None).unwrap();
    let sender = domain.node(2).unwrap().sender("commands");
    if Rights::own().uid == 0 {
        assert!(sender.is_ok(), "the superuser may do all");
    } else {
        let why = sender.unwrap_err().to_string();
        assert_eq!(
            why,
            "this user may not be sender at endpoint 'commands'; the endpoint's rights say who may"
        );
    }
}
