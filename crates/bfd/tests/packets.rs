// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong packets, rare packets, and the table of sessions.

mod common;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use common::{config, every, ms};
use junctor_bfd::{
    AddError, Config, Diagnostic, Discard, Flags, Intervals, Repr, SESSIONS_MAX, Session, SessionKey,
    SessionPlace, Sessions, State, after_receiving,
};
use proptest::prelude::*;

fn key(number: u32) -> SessionKey {
    SessionKey {
        address: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)),
        place: SessionPlace::Interface(1),
    }
}

fn packet(state: State, your_discriminator: u32) -> Repr {
    Repr {
        diagnostic: Diagnostic::NONE,
        state,
        flags: Flags::default(),
        detect_mult: 3,
        my_discriminator: 77,
        your_discriminator,
        desired_min_tx_us: 10_000,
        required_min_rx_us: 10_000,
        required_min_echo_rx_us: 5000,
    }
}

fn bytes(packet: Repr) -> [u8; 24] {
    let mut bytes = [0; 24];
    packet.emit(&mut bytes).unwrap();
    bytes
}

/// A session in `state`, whose neighbour is known.
fn session(state: State) -> Session {
    let mut session = Session::new(config(1, every(10, 3))).unwrap();
    let received = match state {
        State::Init => State::Down,
        State::Up => State::Init,
        State::Down | State::AdminDown => State::AdminDown,
    };
    session.receive(&packet(received, 1), 255, ms(1)).unwrap();
    if state == State::AdminDown {
        session.set_admin_down(true);
    }
    assert_eq!(session.state(), state);
    session
}

#[test]
fn every_transition() {
    for ours in State::ALL {
        for received in State::ALL {
            let mut session = session(ours);
            let result = session.receive(&packet(received, 1), 255, ms(2));
            let next = after_receiving(ours, received);
            assert_eq!(session.state(), next, "{ours} receives {received}");
            match result {
                Err(reason) => assert_eq!((ours, reason), (State::AdminDown, Discard::AdminDown)),
                Ok(None) => assert_eq!(ours, next),
                Ok(Some(change)) => {
                    assert_eq!((change.from, change.to), (ours, next));
                    let signaled = next == State::Down;
                    assert_eq!(change.diagnostic == Diagnostic::NEIGHBOR_SIGNALED_DOWN, signaled);
                    // The neighbour hears of it at once.
                    assert_eq!(session.poll(ms(2), 0).send.unwrap().state, next);
                }
            }
        }
    }
}

#[test]
fn wrong_packets_change_nothing() {
    let mut sessions = Sessions::new();
    sessions.add(key(1), config(1, every(10, 3))).unwrap();
    sessions.receive(&bytes(packet(State::Init, 1)), key(1), 255, ms(1)).unwrap();
    let before = format!("{:?}", sessions.get(key(1)));
    let good = bytes(packet(State::Down, 1));
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        bytes.to_vec()
    };
    let authenticated = {
        let mut bytes = with(1, 0x44);
        bytes.extend([1, 2]);
        bytes[3] = 26;
        bytes
    };
    let cases = [
        (good[..20].to_vec(), key(1), 255, Discard::Truncated),
        (with(0, 0), key(1), 255, Discard::Version),
        (with(3, 20), key(1), 255, Discard::Length),
        (with(3, 25), key(1), 255, Discard::LengthBeyondPayload),
        (with(2, 0), key(1), 255, Discard::DetectMult),
        (with(1, 0x41), key(1), 255, Discard::Multipoint),
        (with(7, 0), key(1), 255, Discard::MyDiscriminator),
        (with(11, 9), key(1), 255, Discard::UnknownDiscriminator),
        (bytes(packet(State::Init, 0)).to_vec(), key(1), 255, Discard::MissingDiscriminator),
        (bytes(packet(State::Up, 0)).to_vec(), key(1), 255, Discard::MissingDiscriminator),
        (bytes(packet(State::Down, 0)).to_vec(), key(2), 255, Discard::UnknownNeighbor),
        (good.to_vec(), key(1), 254, Discard::Ttl),
        (authenticated, key(1), 255, Discard::Authentication),
    ];
    for (payload, from, ttl, reason) in cases {
        assert_eq!(sessions.receive(&payload, from, ttl, ms(2)), Err(reason));
        assert_eq!(format!("{:?}", sessions.get(key(1))), before, "{reason}");
    }
    // The discriminator alone selects the session once it is known.
    assert_eq!(sessions.receive(&good, key(2), 255, ms(2)).unwrap().0, key(1));
}

#[test]
fn several_hops_accept_a_smaller_ttl() {
    let mut session = Session::new(Config::multi_hop(1, 250)).unwrap();
    assert_eq!(session.receive(&packet(State::Down, 0), 249, ms(0)), Err(Discard::Ttl));
    assert!(session.receive(&packet(State::Down, 0), 250, ms(0)).is_ok());
}

#[test]
fn a_poll_is_answered_at_once_and_once() {
    let mut session = session(State::Up);
    while session.poll(ms(1), 0).send.is_some() {}
    session.receive(&Repr { flags: Flags::POLL, ..packet(State::Up, 1) }, 255, ms(2)).unwrap();
    assert_eq!(session.next_due(), Duration::ZERO);
    assert_eq!(session.poll(ms(2), 0).send.unwrap().flags, Flags::FINAL);
    assert_eq!(session.poll(ms(2), 0).send, None);
}

#[test]
fn a_neighbour_may_ask_for_silence() {
    let settle = |flags: Flags, required_min_rx_us: u32| {
        let mut session = session(State::Up);
        // Ends the poll sequence of going up, which would go on in demand mode.
        session.receive(&Repr { flags: Flags::FINAL, ..packet(State::Up, 1) }, 255, ms(1)).unwrap();
        session.receive(&Repr { flags, required_min_rx_us, ..packet(State::Up, 1) }, 255, ms(1)).unwrap();
        while session.poll(ms(1), 0).send.is_some() {}
        session
    };
    for (flags, rx_us, silent) in
        [(Flags::DEMAND, 10_000, true), (Flags::default(), 0, true), (Flags::default(), 10_000, false)]
    {
        let mut session = settle(flags, rx_us);
        assert_eq!(session.poll(ms(20), 0).send.is_none(), silent, "{flags} {rx_us}");
        // It must send all the same.
        let change = session.poll(ms(31), 0).change.unwrap();
        assert_eq!(change.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
    }
}

#[test]
fn changes_are_confirmed_one_by_one() {
    let mut session = session(State::Up);
    // Going up has started a poll sequence.
    let first = session.poll(ms(1), 0).send.unwrap();
    assert_eq!((first.flags, first.desired_min_tx_us), (Flags::POLL, 10_000));
    session.configure(every(20, 3)).unwrap();
    let same = session.poll(ms(2), 0).send.unwrap();
    assert_eq!((same.flags, same.desired_min_tx_us), (Flags::POLL, 10_000));
    session.receive(&Repr { flags: Flags::FINAL, ..packet(State::Up, 1) }, 255, ms(3)).unwrap();
    let second = session.poll(ms(3), 0).send.unwrap();
    assert_eq!((second.flags, second.desired_min_tx_us), (Flags::POLL, 20_000));
    assert_eq!(session.tx_interval(), ms(10));
    session.receive(&Repr { flags: Flags::FINAL, ..packet(State::Up, 1) }, 255, ms(4)).unwrap();
    assert_eq!(session.tx_interval(), ms(20));
    // Going down makes the interval slow, which is a change as well.
    session.fail(Diagnostic::PATH_DOWN).unwrap();
    let slow = session.poll(ms(5), 0).send.unwrap();
    assert_eq!((slow.flags, slow.desired_min_tx_us), (Flags::POLL, 1_000_000));
}

#[test]
fn the_passive_role_waits() {
    let mut session = Session::new(Config { passive: true, ..Config::single_hop(1) }).unwrap();
    assert_eq!((session.next_due(), session.poll(ms(5000), 0).send), (Duration::MAX, None));
    session.set_admin_down(true);
    session.set_admin_down(false);
    assert_eq!((session.poll(ms(5000), 0).send, session.next_due()), (None, Duration::MAX));
    session.receive(&packet(State::Down, 0), 255, ms(5000)).unwrap();
    assert_eq!(session.poll(ms(5000), 0).send.unwrap().your_discriminator, 77);
}

#[test]
fn echo_goes_only_where_it_is_returned() {
    assert_eq!(session(State::Init).echo_interval(), None);
    let mut session = session(State::Up);
    session.receive(&packet(State::Up, 1), 255, ms(2)).unwrap();
    assert_eq!(session.echo_interval(), None, "nobody has asked for it");
    session.set_echo(1000);
    assert_eq!(session.echo_interval(), Some(ms(5)));
    session.receive(&Repr { required_min_echo_rx_us: 0, ..packet(State::Up, 1) }, 255, ms(2)).unwrap();
    assert_eq!(session.echo_interval(), None);
    assert!(session.fail(Diagnostic::ECHO_FAILED).unwrap().is_loss());
}

#[test]
fn only_the_last_echo_packets_count() {
    let mut session = session(State::Up);
    session.receive(&Repr { flags: Flags::FINAL, ..packet(State::Up, 1) }, 255, ms(2)).unwrap();
    session.set_echo(1000);
    let mut sent = Vec::new();
    let mut echoes = |session: &mut Session, until: Duration| {
        while session.next_due() <= until {
            let now = session.next_due().max(ms(2));
            let step = session.poll(now, 7);
            assert_eq!(step.change, None);
            if let Some(payload) = step.echo {
                sent.push(payload);
                assert!(session.receive_echo(&payload, now));
            }
        }
        sent.clone()
    };
    // One in 3.75 ms, from 2 ms on.
    let sent = echoes(&mut session, ms(25));
    assert_eq!(sent.len(), 7);
    let counts: Vec<bool> = sent.iter().map(|payload| session.receive_echo(payload, ms(25))).collect();
    assert_eq!(counts, [false, false, false, false, true, true, true], "three may be on their way");
    let last = sent[6];
    for at in (8..11).chain(12..16) {
        let mut forged = last;
        forged[at] ^= 1;
        assert!(!session.receive_echo(&forged, ms(25)), "byte {at}");
    }
    assert!(!session.receive_echo(&last[..15], ms(25)) && !session.receive_echo(&[], ms(25)));
    // None returns any more: three intervals after the last one it is over.
    let mut now = ms(25);
    let change = loop {
        now = session.next_due().max(now);
        if let Some(change) = session.poll(now, 7).change {
            break change;
        }
    };
    assert_eq!((now, change.diagnostic), (ms(40), Diagnostic::ECHO_FAILED));
    // Control packets go on; for a second they do not bring it up.
    let mut hear = |ms: u64, state| {
        session.receive(&packet(state, 1), 255, Duration::from_millis(ms)).unwrap();
        session.state()
    };
    assert_eq!((hear(41, State::Down), hear(1039, State::Init)), (State::Down, State::Down));
    assert_eq!((hear(1041, State::Down), hear(1042, State::Up)), (State::Init, State::Up));
}

#[test]
fn a_shorter_echo_interval_holds_from_its_beginning() {
    let mut session = session(State::Up);
    let returned_in =
        |us: u32| Repr { required_min_echo_rx_us: us, flags: Flags::FINAL, ..packet(State::Up, 1) };
    session.receive(&returned_in(900_000), 255, ms(2)).unwrap();
    session.set_echo(1000);
    let poll = |session: &mut Session, now: Duration| {
        std::iter::from_fn(|| (session.next_due() <= now).then(|| session.poll(now, 7))).collect::<Vec<_>>()
    };
    assert!(poll(&mut session, ms(2)).iter().any(|step| step.echo.is_some()));
    // None has returned since, and the next one was due after some 700 ms.
    session.receive(&returned_in(5000), 255, ms(500)).unwrap();
    let steps = poll(&mut session, ms(500));
    assert!(steps.iter().all(|step| step.change.is_none()) && steps.iter().any(|step| step.echo.is_some()));
    assert!(poll(&mut session, ms(514)).iter().all(|step| step.change.is_none()));
    let lost = poll(&mut session, ms(515)).into_iter().find_map(|step| step.change);
    assert_eq!(lost.map(|change| change.diagnostic), Some(Diagnostic::ECHO_FAILED));
}

#[test]
fn packets_that_wait_are_looked_at_first() {
    let mut session = session(State::Up);
    session.set_grace(ms(2));
    session.receive(&packet(State::Up, 1), 255, ms(2)).unwrap();
    let changes = |session: &mut Session, now: Duration| -> Vec<_> {
        let polled = std::iter::from_fn(|| (session.next_due() <= now).then(|| session.poll(now, 7)));
        polled.filter_map(|step| step.change).collect()
    };
    // The caller comes 20 ms too late, and only then receives what has waited.
    assert_eq!(changes(&mut session, ms(52)), []);
    session.receive(&packet(State::Up, 1), 255, ms(53)).unwrap();
    assert_eq!(changes(&mut session, ms(82)), []);
    assert_eq!(changes(&mut session, ms(83)), []);
    assert_eq!(changes(&mut session, ms(84)), []);
    let [change] = changes(&mut session, ms(85))[..] else { panic!("it is down") };
    assert_eq!(change.diagnostic, Diagnostic::DETECTION_TIME_EXPIRED);
}

#[test]
fn wrong_settings_are_refused() {
    let check = |config: Config, setting: &str| {
        let error = Session::new(config).unwrap_err().to_string();
        assert!(error.starts_with(&format!("BFD: {setting} is 0: set it to ")), "{error}");
    };
    let good = every(10, 3);
    check(config(0, good), "the discriminator");
    check(config(1, Intervals { desired_min_tx_us: 0, ..good }), "the desired transmission interval");
    check(config(1, Intervals { required_min_rx_us: 0, ..good }), "the required reception interval");
    check(config(1, Intervals { detect_mult: 0, ..good }), "the multiplier");
    let mut session = session(State::Up);
    assert!(session.configure(Intervals { detect_mult: 0, ..good }).is_err());
    assert_eq!(session.config().intervals, good);
}

/// Exchanges packets between two routers until `end`; packet by packet, without delay, while `connected`.
fn exchange(routers: &mut [Sessions; 2], now: &mut Duration, end: Duration, connected: bool) -> usize {
    let (mut changes, mut random) = (0, 1u32);
    for _ in 0..1_000_000 {
        let side = usize::from(routers[1].next_due() < routers[0].next_due());
        *now = routers[side].next_due().max(*now);
        if *now > end {
            *now = end;
            return changes;
        }
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (neighbour, step) = routers[side].poll(*now, random).unwrap();
        changes += usize::from(step.change.is_some());
        if let Some(packet) = step.send.filter(|_| connected) {
            let (_, change) = routers[1 - side].receive(&bytes(packet), neighbour, 255, *now).unwrap();
            changes += usize::from(change.is_some());
        }
    }
    panic!("too many packets");
}

#[test]
fn a_full_table() {
    let mut routers = [Sessions::new(), Sessions::new()];
    for router in &mut routers {
        for number in 0..SESSIONS_MAX as u32 {
            let discriminator = router.free_discriminator(number.wrapping_mul(0x9e37_79b9));
            router.add(key(number), config(discriminator, every(100, 3))).unwrap();
        }
        let free = router.free_discriminator(5);
        assert_eq!(router.add(key(1 << 20), config(free, every(100, 3))), Err(AddError::Full));
    }
    let mut now = Duration::ZERO;
    exchange(&mut routers, &mut now, ms(4000), true);
    assert!(routers.iter().all(|r| r.iter().all(|(_, session)| session.state() == State::Up)));
    let changes = exchange(&mut routers, &mut now, ms(4300), false);
    assert_eq!(changes, 2 * SESSIONS_MAX);
    assert!(routers.iter().all(|r| r.iter().all(|(_, session)| session.state() == State::Down)));
}

#[test]
fn sessions_over_several_hops_are_found_in_their_table() {
    let address = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let several = |local: u8, table: u32| SessionKey {
        address: address(9),
        place: SessionPlace::Several { local: address(local), table },
    };
    let all = [several(1, 0), several(1, 1), several(2, 1)];
    let mut sessions = Sessions::new();
    for (number, key) in (1..).zip(all) {
        sessions.add(key, config(number, every(10, 3))).unwrap();
        assert_eq!(sessions.add(key, config(9, every(10, 3))), Err(AddError::Neighbor { key }));
    }
    let mut receive = |state, discriminator, from| {
        sessions.receive(&bytes(packet(state, discriminator)), from, 255, ms(1)).map(|(key, _)| key)
    };
    for key in all {
        assert_eq!(receive(State::Down, 0, key), Ok(key));
    }
    assert_eq!(receive(State::Down, 0, several(2, 0)), Err(Discard::UnknownNeighbor));
    assert_eq!(receive(State::Init, 2, several(1, 1)), Ok(all[1]));
    // By its discriminator a session is found from any address of its table, and from no other table or by a single hop.
    assert_eq!(receive(State::Init, 3, several(7, 1)), Ok(all[2]));
    assert_eq!(receive(State::Init, 1, several(1, 1)), Err(Discard::UnknownDiscriminator));
    assert_eq!(receive(State::Init, 2, several(1, 0)), Err(Discard::UnknownDiscriminator));
    assert_eq!(receive(State::Init, 1, key(9)), Err(Discard::UnknownDiscriminator));
}

#[test]
fn sessions_come_and_go() {
    let mut sessions = Sessions::new();
    assert_eq!((sessions.next_due(), sessions.poll(ms(9), 0)), (Duration::MAX, None));
    sessions.add(key(1), config(1, every(10, 3))).unwrap();
    assert_eq!(sessions.add(key(1), config(2, every(10, 3))), Err(AddError::Neighbor { key: key(1) }));
    assert_eq!(
        sessions.add(key(2), config(1, every(10, 3))),
        Err(AddError::Discriminator { discriminator: 1 })
    );
    assert_eq!(sessions.free_discriminator(1), 2);
    assert_eq!(sessions.free_discriminator(0), 2);
    assert_eq!(sessions.next_due(), Duration::ZERO);
    let (_, step) = sessions.poll(ms(0), 0).unwrap();
    assert_eq!(step.send.unwrap().state, State::Down);
    assert_eq!((sessions.next_due(), sessions.poll(ms(0), 0)), (ms(750), None));
    sessions.update(key(1), |session| session.set_admin_down(true)).unwrap();
    assert_eq!(sessions.next_due(), Duration::ZERO);
    assert!(sessions.remove(key(1)).is_some() && sessions.remove(key(1)).is_none());
    assert_eq!((sessions.is_empty(), sessions.next_due()), (true, Duration::MAX));
    sessions.add(key(2), config(1, every(10, 3))).unwrap();
    assert_eq!(sessions.len(), 1);
}

proptest! {
    /// An outsider who cannot see our discriminator brings no session up, and no bytes do harm.
    #[test]
    fn arbitrary_packets(
        payloads in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 24..28), any::<bool>(), 0u64..3000), 1..40),
    ) {
        let mut sessions = Sessions::new();
        sessions.add(key(1), config(0x1234_5678, every(10, 3))).unwrap();
        let mut now = Duration::ZERO;
        for (mut payload, named, wait_ms) in payloads {
            // Bytes that come far: right version, length and multiplier, no reserved bits.
            payload[0] = 0x20 | payload[0] & 0x1f;
            payload[1] &= 0xfa;
            (payload[2], payload[3]) = (payload[2] | 1, 24);
            let discriminator = if named { 0x1234_5678u32 } else { 0 };
            payload[8..12].copy_from_slice(&discriminator.to_be_bytes());
            now += ms(wait_ms);
            if let Ok((_, Some(change))) = sessions.receive(&payload, key(1), 255, now) {
                prop_assert!(change.to != State::Up || named);
            }
            for step in 0.. {
                prop_assert!(step < 5, "one packet is answered by many");
                if sessions.poll(now, step).is_none() {
                    break;
                }
            }
            prop_assert!(sessions.next_due() > now);
        }
    }
}
