// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ends of an association: what one protects the other gets back, and nothing else passes.

use std::net::IpAddr;

use junctor_esp::algorithm::{Aead, Auth, Cipher};
use junctor_esp::inbound::{Dropped, Found};
use junctor_esp::sa::{DontFragment, Rules, UdpPorts};
use junctor_esp::{Config, LENT, Mode, Sa, Spec, Unfit, inbound, open, outbound, seal};
use packet::Packet;
use proptest::prelude::*;
use wire::{Protocol, checksum, ipv4, ipv6, udp};

fn gcm() -> Spec {
    Spec::Combined { algorithm: Aead::AesGcm, key: vec![7; 20], icv_len: 16 }
}

fn specs() -> Vec<Spec> {
    let separate = |cipher, len, auth: Auth, auth_len| Spec::Separate {
        cipher,
        key: vec![1; len],
        auth,
        auth_key: vec![2; auth_len],
        icv_len: auth.standard_icv_len(),
    };
    vec![
        gcm(),
        Spec::Combined { algorithm: Aead::AesGcm, key: vec![7; 36], icv_len: 8 },
        Spec::Combined { algorithm: Aead::AesGmac, key: vec![8; 36], icv_len: 16 },
        Spec::Combined { algorithm: Aead::ChaCha20Poly1305, key: vec![9; 36], icv_len: 16 },
        separate(Cipher::AesCbc, 16, Auth::HmacSha256, 32),
        separate(Cipher::TripleDesCbc, 24, Auth::HmacSha1, 20),
        separate(Cipher::Null, 0, Auth::HmacSha512, 64),
    ]
}

fn tunnel() -> Mode {
    Mode::Tunnel { from: [192, 0, 2, 1].into(), to: [192, 0, 2, 2].into() }
}

fn tunnel6() -> Mode {
    Mode::Tunnel { from: "2001:db8::1".parse().unwrap(), to: "2001:db8::2".parse().unwrap() }
}

fn config(mode: Mode, spec: Spec) -> Config {
    Config { spi: 0x1234, mode, udp: None, spec, is_extended: false, window: 64, rules: Rules::default() }
}

/// A packet of this family, class and payload.
fn packet(is_six: bool, class: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; if is_six { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }];
    let payload_len = payload.len() as u16;
    if is_six {
        let (src, dst) = ("2001:db8:1::1".parse().unwrap(), "2001:db8:2::2".parse().unwrap());
        let next_header = Protocol::GRE;
        let repr =
            ipv6::Repr { src, dst, next_header, payload_len, traffic_class: class, ..Default::default() };
        repr.emit(&mut bytes).unwrap();
    } else {
        let (src, dst) = ([10, 1, 0, 1].into(), [10, 2, 0, 2].into());
        let repr =
            ipv4::Repr { src, dst, protocol: Protocol::GRE, payload_len, tos: class, ..Default::default() };
        repr.emit(&mut bytes).unwrap();
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// The longest packet that a path takes.
const MOST: usize = 65_535;

fn sealed(sa: &Sa, clear: &[u8]) -> Packet {
    sealed_for(sa, clear, MOST)
}

/// For a path that takes packets of `most` bytes.
fn sealed_for(sa: &Sa, clear: &[u8], most: usize) -> Packet {
    let number = sa.take_numbers(1).expect("there are numbers");
    let mut packet = Packet::copy_of(clear).unwrap();
    let at = outbound::encapsulate(&mut packet, sa, number, most).unwrap();
    seal(&mut [outbound::part(&mut packet, sa, at, number)]);
    outbound::finish(&mut packet, sa, at);
    packet
}

fn opened(sa: &Sa, packet: &mut Packet) -> Result<Vec<u8>, Dropped> {
    let Found::Esp(arrived) = inbound::find(packet.data())? else { return Err(Dropped::Malformed) };
    if arrived.spi != sa.spi {
        return Err(Dropped::WrongMode);
    }
    let mut parts = [inbound::part(packet, sa, &arrived)?];
    open(&mut parts);
    let (is_genuine, number) = (parts[0].is_genuine, parts[0].number);
    if !is_genuine {
        return Err(Dropped::Forged);
    }
    inbound::decapsulate(packet, sa, &arrived, number)?;
    Ok(packet.data().to_vec())
}

fn pair(config: &Config) -> (Sa, Sa) {
    (Sa::new(config).unwrap(), Sa::new(config).unwrap())
}

proptest! {
    /// All that is said of an association, and packets of all lengths.
    #[test]
    fn what_goes_in_comes_out(
        spec in 0..specs().len(),
        mode in prop_oneof![Just(tunnel()), Just(tunnel6()), Just(Mode::Transport)],
        has_udp: bool,
        is_extended: bool,
        is_six: bool,
        class: u8,
        pad_to in prop_oneof![Just(0u16), 0u16..1500],
        payload in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        let udp = has_udp.then_some(UdpPorts { from: 4500, to: 4501 });
        let rules = Rules { pad_to, ..Rules::default() };
        let spec = specs().swap_remove(spec);
        let config = Config { udp, is_extended, rules, ..config(mode, spec) };
        let ((ours, theirs), third) = (pair(&config), Sa::new(&config).unwrap());
        // The last before the high half changes.
        for sa in [&ours, &theirs] {
            sa.set_sent(0xffff_fffe);
        }
        theirs.window.accept(0xffff_fff0).unwrap();
        let clear = packet(is_six, class, &payload);
        let mut whole = sealed(&ours, &clear);
        if mode != Mode::Transport {
            let longest = outbound::inner_mtu(&ours, whole.len(), 0);
            prop_assert!(longest >= clear.len().max(pad_to.into()));
            let filler = packet(is_six, class, &vec![0; longest - if is_six { 40 } else { 20 }]);
            prop_assert_eq!(sealed(&third, &filler).len(), whole.len());
            prop_assert!(outbound::inner_mtu(&ours, whole.len() - 1, 0) < clear.len().max(pad_to.into()));
        }
        prop_assert_eq!(opened(&theirs, &mut whole), Ok(clear.clone()));
        if is_extended {
            prop_assert_eq!(opened(&theirs, &mut sealed(&ours, &clear)), Ok(clear.clone()));
            prop_assert_eq!(opened(&theirs, &mut sealed(&ours, &clear)), Ok(clear));
            prop_assert_eq!(theirs.window.top(), 0x1_0000_0001);
        }
    }

    /// A changed bit of the ESP part, or a packet that is cut off, never passes; nor does it move the window.
    #[test]
    fn nothing_else_passes(
        spec in 0..specs().len(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        at: prop::sample::Index,
        bit in 0..8u32,
        is_extended: bool,
        is_cut: bool,
    ) {
        let spec = specs().swap_remove(spec);
        let (ours, theirs) = pair(&Config { is_extended, ..config(tunnel(), spec) });
        let clear = packet(false, 0, &payload);
        let good = sealed(&ours, &clear);
        let mut bad = Packet::copy_of(good.data()).unwrap();
        let begin = ipv4::HEADER_LEN;
        if is_cut {
            let len = begin + at.index(good.len() - begin);
            bad.trim(good.len() - len);
            let mut header = ipv4::HeaderMut::from_slice(bad.data_mut()).unwrap();
            header.set_total_len(len as u16);
        } else {
            let at = begin + at.index(good.len() - begin);
            bad.data_mut()[at] ^= 1u8 << bit;
        }
        prop_assert!(opened(&theirs, &mut bad).is_err());
        prop_assert_eq!(theirs.window.top(), 0);
        let mut good = Packet::copy_of(good.data()).unwrap();
        prop_assert_eq!(opened(&theirs, &mut good), Ok(clear));
    }
}

#[test]
fn replays_and_late_packets_are_refused() {
    let (ours, theirs) = pair(&config(tunnel(), gcm()));
    let clear = packet(false, 0, b"once");
    let packets: Vec<Packet> = (0..70).map(|_| sealed(&ours, &clear)).collect();
    let copy = |at: usize| Packet::copy_of(packets[at].data()).unwrap();
    for at in [0, 2, 1, 69] {
        assert_eq!(opened(&theirs, &mut copy(at)), Ok(clear.clone()), "{at}");
        assert_eq!(opened(&theirs, &mut copy(at)), Err(Dropped::Replayed), "{at}");
    }
    assert_eq!(opened(&theirs, &mut copy(5)), Err(Dropped::TooOld), "70 - 64 = 6");
    assert_eq!(opened(&theirs, &mut copy(6)), Ok(clear));
}

#[test]
fn many_packets_of_many_associations_at_once() {
    let ends: Vec<(Sa, Sa)> = specs().into_iter().map(|spec| pair(&config(tunnel(), spec))).collect();
    let clear: Vec<Vec<u8>> = (0..200).map(|at| packet(at % 2 == 0, 0, &vec![at as u8; at * 7])).collect();
    let mut packets: Vec<Packet> = clear.iter().map(|clear| Packet::copy_of(clear).unwrap()).collect();
    let mut ready = Vec::new();
    for (at, packet) in packets.iter_mut().enumerate() {
        let sa = &ends[at % ends.len()].0;
        let number = sa.take_numbers(1).unwrap();
        ready.push((outbound::encapsulate(packet, sa, number, MOST).unwrap(), number));
    }
    let mut parts: Vec<_> = packets
        .iter_mut()
        .zip(&ready)
        .enumerate()
        .map(|(at, (packet, (esp, number)))| outbound::part(packet, &ends[at % ends.len()].0, *esp, *number))
        .collect();
    seal(&mut parts);
    drop(parts);
    for (at, (packet, (esp, _))) in packets.iter_mut().zip(&ready).enumerate() {
        outbound::finish(packet, &ends[at % ends.len()].0, *esp);
    }
    for (at, packet) in packets.iter_mut().enumerate() {
        assert_eq!(opened(&ends[at % ends.len()].1, packet).as_ref(), Ok(&clear[at]), "{at}");
    }
}

/// Numbers of a whole batch are noted together: each packet passes once.
#[test]
fn a_batch_is_accepted_at_once() {
    for window in [0, 64] {
        let config = Config { window, ..config(tunnel(), gcm()) };
        let (ours, theirs) = pair(&config);
        let clear = packet(false, 0, b"one of many");
        let mut packets: Vec<Packet> = (0..100).map(|_| sealed(&ours, &clear)).collect();
        let twice = Packet::copy_of(packets[7].data()).unwrap();
        packets.insert(20, twice);
        let arrived: Vec<_> = packets.iter().map(|packet| inbound::find(packet.data())).collect();
        let arrived: Vec<_> = arrived
            .into_iter()
            .map(|found| if let Ok(Found::Esp(arrived)) = found { arrived } else { panic!("it is ESP") })
            .collect();
        let each = packets.iter_mut().zip(&arrived);
        let mut parts: Vec<_> =
            each.map(|(packet, arrived)| inbound::part(packet, &theirs, arrived).unwrap()).collect();
        open(&mut parts);
        assert!(parts.iter().all(|part| part.is_genuine));
        let numbers: Vec<u64> = parts.iter().map(|part| part.number).collect();
        drop(parts);
        let mut verdicts = Vec::new();
        inbound::accept(&theirs.window, &numbers, |place, verdict: Result<(), inbound::Dropped>| {
            assert_eq!(place, verdicts.len());
            verdicts.push(verdict);
        });
        for (at, verdict) in verdicts.iter().enumerate() {
            let replayed = window > 0 && at == 20;
            assert_eq!(*verdict, if replayed { Err(Dropped::Replayed) } else { Ok(()) }, "{at}");
            inbound::unpack(&mut packets[at], &theirs, &arrived[at]).unwrap();
            assert_eq!(packets[at].data(), clear);
        }
        assert_eq!((verdicts.len(), theirs.window.top()), (101, 100));
    }
}

#[test]
fn headers_follow_their_rules() {
    let (ours, _) = pair(&config(tunnel(), gcm()));
    let mut clear = packet(false, 0xb9, b"x");
    let mut header = ipv4::HeaderMut::from_slice(&mut clear).unwrap();
    header.set_fragment(ipv4::FLAG_DF);
    let outer = |sa: &Sa| {
        let packet = sealed(sa, &clear);
        let view = ipv4::View::new_checked(packet.data()).unwrap();
        assert!(view.checksum_ok());
        (view.tos(), view.dont_fragment(), view.ttl())
    };
    assert_eq!(outer(&ours), (0xb9, true, 64));
    let rules = Rules {
        dont_fragment: DontFragment::Clear,
        copy_dscp: false,
        ecn: false,
        ttl: 9,
        ..Rules::default()
    };
    assert_eq!(outer(&Sa::new(&Config { rules, ..config(tunnel(), gcm()) }).unwrap()), (0, false, 9));
}

#[test]
fn congestion_is_signalled_through_the_tunnel() {
    let marked = |inner: u8| {
        let (ours, theirs) = pair(&config(tunnel(), gcm()));
        let mut whole = sealed(&ours, &packet(false, inner, b"x"));
        let mut header = ipv4::HeaderMut::from_slice(whole.data_mut()).unwrap();
        header.rewrite_tos(3);
        let inner = opened(&theirs, &mut whole)?;
        let view = ipv4::View::new_checked(&inner[..]).unwrap();
        assert!(view.checksum_ok());
        Ok(view.tos())
    };
    assert_eq!(marked(0xb8), Err(Dropped::Congestion));
    assert_eq!(marked(0xba), Ok(0xbb));
}

/// Marking an inner packet does not hide that its checksum is wrong.
#[test]
fn a_wrong_inner_checksum_stays_wrong() {
    let (ours, theirs) = pair(&config(tunnel(), gcm()));
    let mut clear = packet(false, 2, b"x");
    clear[ipv4::field::CHECKSUM] ^= 0x10;
    let mut whole = sealed(&ours, &clear);
    ipv4::HeaderMut::from_slice(whole.data_mut()).unwrap().rewrite_tos(3);
    let inner = opened(&theirs, &mut whole).unwrap();
    let view = ipv4::View::new_checked(&inner[..]).unwrap();
    assert_eq!((view.tos(), view.checksum_ok()), (3, false));
}

#[test]
fn padding_of_ethernet_is_no_payload() {
    for (mode, is_six) in
        [(tunnel(), false), (tunnel6(), true), (Mode::Transport, false), (Mode::Transport, true)]
    {
        for spec in specs() {
            for padding in [1, 6, 18, 45, 500] {
                let (ours, theirs) = pair(&config(mode, spec.clone()));
                let clear = packet(is_six, 0, b"short");
                let plain = sealed(&ours, &clear);
                let mut whole = sealed(&ours, &[&clear[..], &vec![0xee; padding]].concat());
                assert_eq!(whole.len(), plain.len(), "{mode:?} {spec:?} {padding}");
                assert_eq!(opened(&theirs, &mut whole).as_ref(), Ok(&clear), "{mode:?} {spec:?} {padding}");
            }
        }
    }
}

#[test]
fn udp_over_ipv6_has_a_checksum() {
    let udp = Some(UdpPorts { from: 4500, to: 4501 });
    for mode in [tunnel6(), Mode::Transport] {
        for len in 0..50 {
            let (ours, theirs) = pair(&Config { udp, ..config(mode, gcm()) });
            let clear = packet(true, 0, &vec![5; len]);
            let mut whole = sealed(&ours, &clear);
            let view = ipv6::View::new_checked(whole.data()).unwrap();
            let datagram = view.payload();
            assert_ne!(datagram[udp::field::CHECKSUM..][..2], [0, 0]);
            assert!(
                checksum::transport_v6_ok(view.src(), view.dst(), Protocol::UDP, datagram),
                "{mode:?} {len}"
            );
            // Nobody looks at it.
            whole.data_mut()[ipv6::HEADER_LEN + udp::field::CHECKSUM] ^= 1;
            assert_eq!(opened(&theirs, &mut whole), Ok(clear));
        }
    }
    let (ours, _) = pair(&Config { udp, ..config(tunnel(), gcm()) });
    let whole = sealed(&ours, &packet(true, 0, b"x"));
    assert_eq!(whole.data()[ipv4::HEADER_LEN + udp::field::CHECKSUM..][..2], [0, 0], "IPv4 needs none");
}

/// The inner checksum is computed anew behind an address translator, over what the UDP length covers.
#[test]
fn inner_udp_checksums_cover_the_udp_length() {
    let arrives = |udp_len: u16| {
        let ports = Some(UdpPorts { from: 4500, to: 4500 });
        let (ours, theirs) = pair(&Config { udp: ports, ..config(Mode::Transport, gcm()) });
        let datagram =
            [&[0, 53, 0, 53][..], &udp_len.to_be_bytes(), &[0xab, 0xcd], b"payload, options"].concat();
        let mut clear = packet(false, 0, &datagram);
        let mut header = ipv4::HeaderMut::from_slice(&mut clear).unwrap();
        header.set_protocol(Protocol::UDP);
        let inner = opened(&theirs, &mut sealed(&ours, &clear)).unwrap();
        inner[ipv4::HEADER_LEN..].to_vec()
    };
    let (src, dst) = ([10, 1, 0, 1].into(), [10, 2, 0, 2].into());
    for len in [8u16, 15, 24] {
        let datagram = arrives(len);
        assert_eq!(datagram.len(), 24);
        let covered = &datagram[..len.into()];
        assert!(checksum::transport_v4_ok(src, dst, Protocol::UDP, covered), "{len}");
    }
    for len in [0, 7, 25, u16::MAX] {
        assert_eq!(arrives(len)[udp::field::CHECKSUM..][..2], [0xab, 0xcd], "{len}");
    }
}

/// What arrives behind an address translator that has changed a sender's address, for a payload of this protocol in transport mode.
fn translated(is_six: bool, next: Protocol, payload: &[u8]) -> Vec<u8> {
    let udp = Some(UdpPorts { from: 4500, to: 4500 });
    let (ours, theirs) = pair(&Config { udp, ..config(Mode::Transport, gcm()) });
    let mut whole = Packet::copy_of(&packet(is_six, 0, payload)).unwrap();
    let at = outbound::encapsulate(&mut whole, &ours, 1, MOST).unwrap();
    // A peer may send what our own sender refuses.
    let next_at = whole.len() - ours.suite.icv_len() - 1;
    whole.data_mut()[next_at] = next.0;
    seal(&mut [outbound::part(&mut whole, &ours, at, 1)]);
    if is_six {
        whole.data_mut()[ipv6::field::SRC + 15] ^= 0x55;
    } else {
        let mut header = ipv4::HeaderMut::from_slice(whole.data_mut()).unwrap();
        header.rewrite_src([10, 9, 9, 9].into());
    }
    opened(&theirs, &mut whole).unwrap()
}

/// The checksum of ICMPv6 covers addresses, and is computed anew behind a translator; that of ICMP does not, and stays.
#[test]
fn icmp_checksums_behind_a_translator() {
    let echo = [&[128, 0, 0xab, 0xcd, 0, 1, 0, 2][..], b"echo data"].concat();
    let options = [Protocol::ICMPV6.0, 0, 1, 4, 0, 0, 0, 0];
    let (mut long, mut fragment) = (options, options);
    (long[1], fragment[0]) = (200, Protocol::ICMPV6.0);
    let check = |next, ahead: &[u8], is_right: bool| {
        let inner = translated(true, next, &[ahead, &echo].concat());
        let view = ipv6::View::new_checked(&inner[..]).unwrap();
        let message = &view.payload()[ahead.len()..];
        let right = checksum::transport_v6_ok(view.src(), view.dst(), Protocol::ICMPV6, message);
        assert_eq!(right, is_right, "{next} {ahead:?}");
        assert!(is_right || message == echo);
    };
    check(Protocol::ICMPV6, &[], true);
    check(Protocol::IPV6_DESTINATION, &options, true);
    check(Protocol::IPV6_DESTINATION, &long, false);
    check(Protocol::IPV6_FRAGMENT, &fragment, false);
    let inner = translated(false, Protocol::ICMP, &echo);
    assert_eq!(inner[ipv4::HEADER_LEN..], echo);
    let inner = translated(false, Protocol::ICMPV6, &echo);
    assert_eq!(inner[ipv4::HEADER_LEN..], echo, "over IPv4 it is nothing that we know");
}

/// Other senders pad with zeros or random bytes, and behind the inner packet with anything (RFC 4303, 2.7).
#[test]
fn padding_may_be_anything() {
    for (spec, zeros) in specs().into_iter().flat_map(|spec| [(spec.clone(), 0), (spec, 40)]) {
        for byte in [0, 0xa5, 2] {
            let (ours, theirs) = pair(&config(tunnel(), spec.clone()));
            let (clear, number) = (packet(false, 0, b"padded"), ours.take_numbers(1).unwrap());
            let mut whole = Packet::copy_of(&clear).unwrap();
            let at = outbound::encapsulate(&mut whole, &ours, number, MOST).unwrap();
            // The same trailer by hand, with `zeros` bytes more in front of it and 16 bytes of padding.
            let trailer_at = at.0 + 8 + ours.suite.iv_len() + clear.len();
            let len = trailer_at + zeros;
            let padded = (clear.len() + zeros + 2).next_multiple_of(16) - clear.len() - zeros - 2 + 16;
            whole.trim(whole.len() - trailer_at);
            whole.put(zeros + padded + 2 + ours.suite.icv_len()).unwrap();
            whole.data_mut()[trailer_at..len + padded].fill(byte);
            whole.data_mut()[len + padded..][..2].copy_from_slice(&[padded as u8, 4]);
            let whole_len = whole.len() as u16;
            ipv4::HeaderMut::from_slice(whole.data_mut()).unwrap().set_total_len(whole_len);
            seal(&mut [outbound::part(&mut whole, &ours, at, number)]);
            assert_eq!(opened(&theirs, &mut whole), Ok(clear), "{spec:?} {byte}");
        }
    }
}

#[test]
fn identifications_of_associations_differ() {
    let ids: Vec<u16> = (0..8)
        .map(|_| {
            let (ours, _) = pair(&config(tunnel(), gcm()));
            let [first, second] = [(); 2].map(|()| {
                let whole = sealed(&ours, &packet(false, 0, b"x"));
                ipv4::View::new_checked(whole.data()).unwrap().id()
            });
            assert_eq!(second, first.wrapping_add(1));
            first
        })
        .collect();
    assert!(ids.iter().any(|id| *id != ids[0]), "{ids:?}");
}

#[test]
fn udp_and_number_zero_are_checked() {
    let clear = packet(false, 0, b"x");
    let udp = Some(UdpPorts { from: 4500, to: 4500 });
    let by_udp = Config { udp, ..config(tunnel(), gcm()) };
    let plain = config(tunnel(), gcm());
    for (ours, theirs) in [(&by_udp, &plain), (&plain, &by_udp)] {
        let (ours, theirs) = (Sa::new(ours).unwrap(), Sa::new(theirs).unwrap());
        assert_eq!(opened(&theirs, &mut sealed(&ours, &clear)), Err(Dropped::WrongMode));
    }
    let (ours, theirs) = pair(&plain);
    let mut zero = sealed(&ours, &clear);
    zero.data_mut()[ipv4::HEADER_LEN + 4..][..4].fill(0);
    assert_eq!(opened(&theirs, &mut zero), Err(Dropped::Malformed));
}

#[test]
fn dummies_are_dropped() {
    let cases = [(tunnel(), false), (tunnel6(), true), (Mode::Transport, false), (Mode::Transport, true)];
    for (mode, is_six) in cases {
        let ends: (IpAddr, IpAddr) = match is_six {
            false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            true => ([1; 16].into(), [2; 16].into()),
        };
        let udp = Some(UdpPorts { from: 4500, to: 4500 });
        for (len, pad_to) in [(0, 0), (1, 0), (1000, 0), (5, 400)] {
            let pad_to = if mode == Mode::Transport { 0 } else { pad_to };
            let rules = Rules { pad_to, ..Rules::default() };
            let (ours, theirs) = pair(&Config { udp, rules, ..config(mode, gcm()) });
            let (mut dummy, at) = outbound::dummy(&ours, ends, 1, (len, MOST)).unwrap();
            let before = if is_six { 40 } else { 20 } + 8 + 8 + 8;
            let expected = before + (len.max(pad_to.into()) + 2).next_multiple_of(4) + 16;
            assert_eq!(dummy.len(), expected);
            seal(&mut [outbound::part(&mut dummy, &ours, at, 1)]);
            outbound::finish(&mut dummy, &ours, at);
            assert_eq!(opened(&theirs, &mut dummy), Err(Dropped::Dummy), "{len}");
            assert_eq!(theirs.window.top(), 1);
        }
    }
    let ends: (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [1; 16].into());
    let why =
        |mode, len| outbound::dummy(&Sa::new(&config(mode, gcm())).unwrap(), ends, 1, (len, MOST)).map(drop);
    assert_eq!(why(Mode::Transport, 9), Err(Unfit::NotIp), "two families");
    assert_eq!(why(tunnel(), 65_500), Err(Unfit::TooLong));
    assert_eq!(why(tunnel(), usize::MAX), Err(Unfit::TooLong));
}

#[test]
fn what_is_no_packet_of_an_association() {
    let (ours, theirs) = pair(&config(Mode::Transport, gcm()));
    let mut fragment = packet(false, 0, &[0; 16]);
    ipv4::HeaderMut::from_slice(&mut fragment).unwrap().set_fragment(ipv4::FLAG_MF);
    let refused = |bytes: &[u8], sa: &Sa| {
        let mut packet = Packet::copy_of(bytes).unwrap();
        let why = outbound::encapsulate(&mut packet, sa, 1, MOST).map(drop);
        assert_eq!(packet.data(), bytes);
        why
    };
    assert_eq!(refused(&fragment, &ours), Err(Unfit::Fragment));
    assert_eq!(refused(&fragment[..30], &ours), Err(Unfit::NotIp));
    assert_eq!(refused(&[], &ours), Err(Unfit::NotIp));
    assert_eq!(refused(&packet(false, 0, &[0; 65_490]), &ours), Err(Unfit::TooLong));
    let padded = [packet(false, 0, &[0; 65_490]), vec![7; 9]].concat();
    assert_eq!(refused(&padded, &ours), Err(Unfit::TooLong));
    let found = |protocol, payload: &[u8]| {
        let mut bytes = packet(false, 0, payload);
        ipv4::HeaderMut::from_slice(&mut bytes).unwrap().set_protocol(protocol);
        inbound::find(&bytes)
    };
    let datagram = |payload: &[u8]| {
        let len = 8 + payload.len() as u16;
        [&[0x11, 0x94, 0x11, 0x94][..], &len.to_be_bytes(), &[0, 0], payload].concat()
    };
    assert_eq!(found(Protocol::UDP, &datagram(&[0xff])), Ok(Found::KeepAlive));
    assert_eq!(found(Protocol::UDP, &datagram(&[0, 0, 0, 0, 1])), Ok(Found::Ike));
    assert_eq!(found(Protocol::UDP, &datagram(&[1, 2, 3])), Err(Dropped::Malformed));
    assert_eq!(found(Protocol::ESP, &[1, 2, 3, 4, 5, 6, 7]), Err(Dropped::Malformed));
    assert_eq!(found(Protocol::TCP, &[0; 40]), Err(Dropped::Malformed));
    assert_eq!(inbound::find(&fragment), Err(Dropped::Fragment));
    // Another association's packet fails its check.
    let other = Sa::new(&config(Mode::Transport, specs().swap_remove(3))).unwrap();
    assert_eq!(opened(&theirs, &mut sealed(&other, &packet(false, 0, b"x"))), Err(Dropped::Forged));
    // A tunnel's packet that is genuine, and carries no packet.
    let (ours, theirs) = pair(&config(tunnel(), gcm()));
    let transport = Sa::new(&config(Mode::Transport, gcm())).unwrap();
    assert_eq!(opened(&theirs, &mut sealed(&transport, &packet(false, 0, b"x"))), Err(Dropped::WrongMode));
    let mut dummy = packet(false, 0, b"nothing");
    ipv4::HeaderMut::from_slice(&mut dummy).unwrap().set_protocol(Protocol::IPV6_NO_NEXT);
    transport.set_sent(1);
    assert_eq!(opened(&theirs, &mut sealed(&transport, &dummy)), Err(Dropped::Dummy));
    drop(ours);
}

/// A tunnel carries any packet whose length field is right: what its extension headers say is the receiver's business.
#[test]
fn a_tunnel_carries_odd_extension_headers() {
    let kinds = [Protocol::HOP_BY_HOP, Protocol::IPV6_ROUTE, Protocol::IPV6_DESTINATION, Protocol::AH];
    for kind in kinds.into_iter().chain([Protocol::IPV6_FRAGMENT]) {
        // Cut off; longer than the packet; more of them than anybody counts.
        for payload in [vec![], vec![59, 200, 1, 4, 0, 0, 0, 0], [kind.0, 0, 1, 4, 0, 0, 0, 0].repeat(20)] {
            let mut clear = packet(true, 0, &payload);
            clear[ipv6::field::NEXT_HEADER] = kind.0;
            for mode in [tunnel(), tunnel6()] {
                let (ours, theirs) = pair(&config(mode, gcm()));
                assert_eq!(opened(&theirs, &mut sealed(&ours, &clear)).as_ref(), Ok(&clear), "{kind}");
            }
        }
    }
}

/// Padding that hides lengths fills the path, and no more.
#[test]
fn padding_ends_with_the_path() {
    for (mode, spec) in specs().into_iter().flat_map(|spec| [(tunnel(), spec.clone()), (tunnel6(), spec)]) {
        let rules = Rules { pad_to: u16::MAX, ..Rules::default() };
        let (ours, theirs) = pair(&Config { rules, ..config(mode, spec.clone()) });
        let plain = Sa::new(&config(mode, spec)).unwrap();
        let longest = outbound::inner_mtu(&ours, 1400, 0);
        let mut lens: Vec<usize> = Vec::new();
        for payload in [0, 1, 700, longest - ipv4::HEADER_LEN] {
            let clear = packet(false, 0, &vec![7; payload]);
            let mut whole = sealed_for(&ours, &clear, 1400);
            lens.push(whole.len());
            assert_eq!(opened(&theirs, &mut whole), Ok(clear));
        }
        lens.dedup();
        assert_eq!(lens.len(), 1, "all are of one length");
        assert!(lens[0] <= 1400 && lens[0] + ours.suite.align() > 1400, "{lens:?}");
        // A longer one is for others to fragment.
        let long = packet(false, 0, &vec![7; 1400]);
        assert_eq!(sealed_for(&ours, &long, 1400).len(), sealed(&plain, &long).len());
        let (dummy, _) = outbound::dummy(&ours, ([0; 4].into(), [0; 4].into()), 9, (0, 1400)).unwrap();
        assert_eq!(dummy.len(), lens[0]);
    }
    // Only tunnels are padded.
    let rules = Rules { pad_to: 1400, ..Rules::default() };
    let (ours, _) = pair(&Config { rules, ..config(Mode::Transport, gcm()) });
    assert_eq!(outbound::inner_mtu(&ours, 100, 20), 66);
    assert_eq!(sealed(&ours, &packet(false, 0, b"ab")).len(), 20 + 8 + 8 + 4 + 16);
}

#[test]
fn extension_headers_stay_in_front() {
    // Hop-by-hop options, options before a routing header, that, and options for the last destination.
    let extension = |next: Protocol| [next.0, 0, 1, 4, 0, 0, 0, 0];
    let chain = [Protocol::IPV6_DESTINATION, Protocol::IPV6_ROUTE, Protocol::IPV6_DESTINATION, Protocol::GRE];
    let payload: Vec<u8> = chain.into_iter().flat_map(extension).chain(*b"payload!").collect();
    let mut clear = packet(true, 0, &payload);
    clear[ipv6::field::NEXT_HEADER] = Protocol::HOP_BY_HOP.0;
    let (ours, theirs) = pair(&config(Mode::Transport, gcm()));
    let mut whole = sealed(&ours, &clear);
    let esp = ipv6::HEADER_LEN + 3 * 8;
    assert_eq!(whole.data()[esp - 8], Protocol::ESP.0, "behind the routing header");
    assert_eq!(&whole.data()[esp..esp + 4], &0x1234u32.to_be_bytes());
    assert_eq!(opened(&theirs, &mut whole), Ok(clear));
}

#[test]
fn lent_bytes_come_back() {
    let (ours, _) = pair(&Config { is_extended: true, ..config(tunnel(), gcm()) });
    let whole = sealed(&ours, &packet(false, 0, b"x"));
    let header = &whole.data()[ipv4::HEADER_LEN - LENT..ipv4::HEADER_LEN];
    assert_eq!(header, [192, 0, 2, 2]);
}

/// More packets were lost than the low half of a number can tell. The receiver finds the upper half by trials.
#[test]
fn a_receiver_that_lost_step_finds_it_again() {
    for (window, spec, highs) in [(64, gcm(), 1..=7), (0, specs().remove(1), 1..=1)] {
        for high in highs {
            let config = Config { is_extended: true, window, spec: spec.clone(), ..config(tunnel(), gcm()) };
            let (ours, theirs) = pair(&config);
            let clear = packet(false, 0, b"abc");
            let mut send = |number: u64| {
                let mut packet = Packet::copy_of(&clear).unwrap();
                let at = outbound::encapsulate(&mut packet, &ours, number, MOST).unwrap();
                seal(&mut [outbound::part(&mut packet, &ours, at, number)]);
                let is_there = opened(&theirs, &mut packet) == Ok(clear.clone());
                theirs.note_check(is_there);
                is_there
            };
            assert!((1000..1100).all(&mut send));
            let first = (high << 32) + 5000;
            let found = (first..first + 2000).position(&mut send).expect("it is found");
            assert!((512..512 + 7 * 16 + 16).contains(&found), "{found} packets");
            let next = first + found as u64 + 1;
            assert!((next..next + 3000).all(&mut send), "all pass from then on");
            assert_eq!(theirs.window.top(), next + 2999);
        }
    }
    // Behind many forged packets, few genuine ones are lost.
    let (ours, theirs) = pair(&Config { is_extended: true, ..config(tunnel(), gcm()) });
    (0..1000).for_each(|_| theirs.note_check(false));
    let clear = packet(false, 0, b"abc");
    let came = (0..160).filter(|_| opened(&theirs, &mut sealed(&ours, &clear)) == Ok(clear.clone()));
    assert_eq!(came.count(), 150, "one in sixteen is a trial until one passes the check and that is noted");
}
