// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

#[test]
fn new_packets_have_headroom_and_clear_annotations() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"hello").unwrap();
        assert!(p.headroom() >= HEADROOM);
        assert_eq!((p.data(), p.paint(), p.dst_ip(), p.timestamp_ns()), (&b"hello"[..], 0, [0; 4], 0));
        p.set_paint(7);
        p.set_anno_u32(anno::SEQUENCE, 99);
        p.set_timestamp_ns(5);
        drop(p);
        for _ in 0..600 {
            let p = Packet::copy_of(b"again").unwrap();
            assert_eq!(
                (p.paint(), p.anno_u32(anno::SEQUENCE), p.timestamp_ns(), p.network_offset()),
                (0, 0, 0, None)
            );
        }
    });
}

#[test]
fn strip_push_put_trim() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"0123456789").unwrap();
        p.set_network(4, 2);
        p.strip(4);
        assert_eq!((p.data(), p.network_offset(), p.transport_offset()), (&b"456789"[..], Some(0), Some(2)));
        assert!(p.unstrip(4));
        assert_eq!(p.data(), b"0123456789");
        p.push(2).unwrap()[..2].copy_from_slice(b"ab");
        p.put(1).unwrap()[12] = b'z';
        assert_eq!((p.data(), p.network_offset()), (&b"ab0123456789z"[..], Some(6)));
        p.trim(3);
        assert_eq!(p.data(), b"ab01234567");
    });
}

#[test]
fn growing_moves_bytes_positions_and_annotations() {
    crate::alone(|| {
        let mut p = Packet::copy_with_headroom(0, &[1; 1900]).unwrap();
        p.set_network(14, 20);
        p.set_paint(3);
        let bytes = p.push(2000).unwrap();
        bytes[..2000].fill(9);
        assert_eq!((p.len(), p.network_offset(), p.paint()), (3900, Some(2014), 3));
        assert!(p.data()[..2000].iter().all(|b| *b == 9) && p.data()[2000..].iter().all(|b| *b == 1));
        p.put(60000).unwrap()[3900..].fill(5);
        assert_eq!((p.len(), p.data()[2000], p.data()[63899]), (63900, 1, 5));
        assert!(Packet::alloc(0, 1 << 20).is_none());
    });
}

#[test]
fn clones_share_until_somebody_writes() {
    crate::alone(|| {
        for writer in 0..3 {
            let mut packets = vec![Packet::copy_of(b"abc").unwrap()];
            packets[0].set_paint(4);
            let b = packets[0].share().unwrap();
            packets.push(b);
            let c = packets[1].share().unwrap();
            packets.push(c);
            assert!(
                packets.iter().all(|p| p.as_ptr() == packets[0].as_ptr() && p.paint() == 4 && p.is_shared())
            );
            packets[writer].data_mut()[0] = b'X';
            for (i, p) in packets.iter().enumerate() {
                assert_eq!(p.data(), if i == writer { b"Xbc" } else { b"abc" });
            }
        }
    });
}

#[test]
fn a_second_packet_is_a_copy_if_it_is_short() {
    crate::alone(|| {
        for (len, shared) in [(1, false), (SHORT, false), (SHORT + 1, true)] {
            let mut first = Packet::copy_of(&vec![7; len]).unwrap();
            first.set_paint(3);
            first.set_network(0, 20);
            let mut second = first.second().unwrap();
            assert_eq!((first.is_shared(), second.is_shared()), (shared, shared));
            second.data_mut()[0] = 9;
            assert_eq!((first.data()[0], second.data()[0], second.len()), (7, 9, len));
            assert_eq!((second.paint(), second.network_offset()), (3, Some(0)));
        }
    });
}

#[test]
fn frames_are_conserved_whatever_the_order_of_drops() {
    crate::alone(|| {
        let start = memory().usage().in_use();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for write in [None, Some(0), Some(1), Some(2)] {
                for len in [60, 4000, 20000] {
                    let mut a = Packet::alloc(64, len).unwrap();
                    let mut b = a.share().unwrap();
                    let c = b.share().unwrap();
                    let mut packets = [Some(a), Some(b), Some(c)];
                    for i in order {
                        if let (Some(w), true) = (write, true)
                            && let Some(p) = &mut packets[w]
                        {
                            p.data_mut()[0] = 1;
                        }
                        packets[i] = None;
                    }
                    assert_eq!(memory().usage().in_use(), start, "order {order:?} write {write:?} len {len}");
                }
            }
        }
    });
}

#[test]
fn frames_pass_between_threads() {
    crate::alone(|| {
        let frames: u64 = if cfg!(miri) { 500 } else { 20_000 };
        let start = memory().usage().in_use();
        let (tx, rx) = std::sync::mpsc::sync_channel::<Packet>(64);
        let sink = std::thread::spawn(move || rx.into_iter().map(|p| u64::from(p.data()[0])).sum::<u64>());
        for i in 0..frames {
            tx.send(Packet::copy_of(&[i as u8; 60]).unwrap()).unwrap();
        }
        drop(tx);
        assert_eq!(sink.join().unwrap(), (0..frames).map(|i| i & 255).sum());
        assert_eq!(memory().usage().in_use(), start);
    });
}

#[test]
fn exhaustion_is_an_answer_not_a_crash() {
    crate::alone(|| {
        let mut held: Vec<Packet> = std::iter::from_fn(|| Packet::copy_of(b"x")).collect();
        assert!(held.len() <= memory().frames());
        assert!(held[0].share().is_none());
        let last = held.len() - 1;
        drop(held.remove(last));
        let mut clone = held[0].share().unwrap();
        held[0].data_mut()[0] = b'y';
        clone.data_mut()[0] = b'z';
        assert_eq!((held[0].data(), clone.data()), (&b"y"[..], &b"z"[..]));
    });
}

#[test]
fn a_frame_goes_to_a_device_and_back() {
    crate::alone(|| {
        let p = Packet::copy_of(b"wire").unwrap();
        let offset = p.headroom();
        let index = p.into_frame().unwrap();
        // SAFETY: given away the line before, and no device refers to it.
        let p = unsafe { Packet::from_frame(index, offset, 4) };
        assert_eq!(p.data(), b"wire");
        let mut p = p;
        let _clone = p.share().unwrap();
        assert!(p.into_frame().is_err());
    });
}

#[test]
fn align_moves_to_the_wanted_residue() {
    crate::alone(|| {
        for offset in 0..4 {
            let mut p = Packet::copy_of(b"0123456789").unwrap();
            p.set_network(2, 4);
            assert!(p.align(4, offset));
            assert_eq!(
                (p.as_ptr() as usize % 4, p.data(), p.network_offset()),
                (offset, &b"0123456789"[..], Some(2))
            );
        }
    });
}

#[test]
fn copies_keep_the_link_header_in_front_of_the_data() {
    crate::alone(|| {
        for length in [4, 300, 3000] {
            let bytes: Vec<u8> = (0..14 + length).map(|n| n as u8).collect();
            let stripped = || {
                let mut p = Packet::copy_of(&bytes).unwrap();
                p.arrive(0);
                p.strip(14);
                p
            };
            // Frames whose headroom holds what others have left.
            drop((0..8).map(|_| Packet::copy_of(&[0xee; 1000])).collect::<Vec<_>>());
            let whole = |p: &Packet| (p.mac_offset(), p.mac().map(<[u8]>::to_vec), p.data().to_vec());
            let expected = (Some(-14), Some(bytes.clone()), bytes[14..].to_vec());
            let mut first = stripped();
            assert_eq!(whole(&first.duplicate().unwrap()), expected);
            // The first one that is written to becomes a copy: the clone, or the original.
            for writes in 0..2 {
                let mut both = [stripped(), Packet::copy_of(b"").unwrap()];
                both[1] = both[0].share().unwrap();
                let last = both[writes].len() - 1;
                both[writes].data_mut()[last] = bytes[14 + last];
                assert_eq!([whole(&both[0]), whole(&both[1])], [expected.clone(), expected.clone()]);
            }
            let room = first.headroom() + 1;
            first.push(room).unwrap();
            assert_eq!(
                (first.mac_offset(), &first.mac().unwrap()[..14]),
                (Some(room as i32 - 14), &bytes[..14])
            );
        }
    });
}

#[test]
fn header_chunks_lie_inside_the_packet() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"0123456789").unwrap();
        assert_eq!(p.network_chunk::<2>(), None);
        p.set_network(3, 4);
        assert_eq!((p.network_chunk::<2>(), p.network_chunk::<7>()), (Some(b"34"), Some(b"3456789")));
        assert_eq!(p.network_chunk::<8>(), None);
        let clone = p.share().unwrap();
        p.network_chunk_mut::<1>().unwrap()[0] = b'x';
        assert_eq!((p.data(), clone.data()), (&b"012x456789"[..], &b"0123456789"[..]));
        p.strip(4);
        assert_eq!(p.network_chunk::<1>(), None);
        p.trim(6);
        p.set_network(0, 0);
        assert_eq!((p.network_chunk::<1>(), p.network_chunk::<0>()), (None, Some(b"")));
    });
}

#[test]
fn entering_the_network_layer_is_strip_trim_and_mark() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"eeeehhhhpptt").unwrap();
        let mut one_by_one = Packet::copy_of(b"eeeehhhhpptt").unwrap();
        p.enter_network(4, 6, 0, 4);
        one_by_one.strip(4);
        one_by_one.set_network(0, 4);
        one_by_one.trim(2);
        for p in [&p, &one_by_one] {
            assert_eq!(p.data(), b"hhhhpp");
            assert_eq!((p.network_offset(), p.transport()), (Some(0), Some(&b"pp"[..])));
        }
        // A position beyond what can be named is none.
        let mut large = Packet::alloc(HEADROOM, 70_000).unwrap();
        large.enter_network(0, 70_000, 65_500, 20);
        assert_eq!((large.network_offset(), large.transport_offset()), (None, None));
    });
}

#[test]
fn a_link_header_goes_into_headroom_of_our_own() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"ip").unwrap();
        assert!(p.push_link_header(b"dstdst??", b"srcsrcty"));
        assert_eq!((p.data(), p.mac_offset()), (&b"dstdstsrcsrctyip"[..], Some(0)));
        let clone = p.share().unwrap();
        assert!(!p.push_link_header(b"dstdst??", b"srcsrcty"), "the bytes are shared");
        assert_eq!(p.len(), 16);
        drop((p, clone));
        let mut tight = Packet::copy_of(&[7; 200]).unwrap();
        assert!(tight.unstrip(tight.headroom() - 13));
        assert!(!tight.push_link_header(b"dstdst??", b"srcsrcty"), "13 bytes are not enough");
        tight.strip(1);
        assert!(tight.push_link_header(b"dstdst??", b"srcsrcty"));
        assert_eq!(tight.headroom(), 0);
    });
}

#[test]
fn a_sole_network_header_knows_its_length() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"0123456789").unwrap();
        assert!(p.sole_network::<1>().is_none(), "unset");
        p.set_network(3, 4);
        assert_eq!(p.sole_network::<7>().map(|(h, len)| (*h, len)), Some((*b"3456789", 7)));
        assert!(p.sole_network::<8>().is_none());
        let clone = p.share().unwrap();
        assert!(p.sole_network::<1>().is_none(), "shared");
        drop(clone);
        p.strip(4);
        assert!(p.sole_network::<1>().is_none(), "stripped");
    });
}

#[test]
fn relink_changes_all_or_nothing() {
    crate::alone(|| {
        let (dst, rest) = ([1, 1, 1, 1, 1, 1, 7, 7], [2, 2, 2, 2, 2, 2, 8, 0]);
        let frame: Vec<u8> = (0..60).collect();
        // Bytes to strip, length with the header, headroom: whether it works.
        for (strip, len, headroom, good) in [
            (14, 40, 128, true),
            (14, 46, 0, true),
            (20, 20, 0, true),
            (0, 60, 14, true),
            (0, 60, 13, false),
            (14, 47, 128, false),
            (41, 20, 128, false),
            (u32::MAX, 20, 128, false),
        ] {
            for shared in [false, true] {
                let mut p = with_headroom(headroom, &frame);
                let twin = if shared { p.share() } else { None };
                let got = p.relink::<20>(strip, len - 20, &dst, &rest).map(|header| {
                    header[0] = 99;
                });
                assert_eq!(got.is_some(), good && !shared, "{strip} {len} {headroom} {shared}");
                if got.is_none() {
                    assert_eq!((p.data(), p.network_offset()), (&frame[..], None));
                    continue;
                }
                let (at, end) = (strip as usize, strip as usize + usize::from(len));
                let want = [&dst[..6], &rest, &[99], &frame[at + 1..end]].concat();
                assert_eq!(p.data(), want);
                let places = (p.mac_offset(), p.network_offset(), p.transport_offset());
                assert_eq!(places, (Some(0), Some(14), Some(34)));
                drop(twin);
            }
        }
    });
}

/// A packet with exactly this headroom.
fn with_headroom(headroom: usize, bytes: &[u8]) -> Packet {
    let mut p = Packet::alloc(headroom, bytes.len()).unwrap();
    let more = p.headroom() - headroom;
    assert!(p.unstrip(more));
    p.trim(more);
    p.data_mut().copy_from_slice(bytes);
    p
}

#[test]
fn chunks_lie_inside_the_packet() {
    crate::alone(|| {
        let p = Packet::copy_of(b"0123456789").unwrap();
        assert_eq!(p.chunk_at::<4>(6), Some(b"6789"));
        for at in [7, 10, 11, usize::MAX - 1, usize::MAX] {
            assert_eq!(p.chunk_at::<4>(at), None, "{at}");
        }
    });
}

#[test]
fn arrival_is_marked_once() {
    crate::alone(|| {
        let mut p = Packet::copy_of(b"frame").unwrap();
        p.arrive(0);
        assert_eq!((p.timestamp_ns(), p.mac_offset()), (0, Some(0)));
        p.arrive(5);
        p.arrive(7);
        p.set_anno_u32(anno::SEQUENCE, 9);
        assert_eq!((p.timestamp_ns(), p.anno_u32(anno::AGGREGATE), p.anno_u32(anno::SEQUENCE)), (5, 0, 9));
        let twin = p.share().unwrap();
        assert_eq!((twin.timestamp_ns(), twin.anno_u32(anno::SEQUENCE)), (5, 9));
    });
}
