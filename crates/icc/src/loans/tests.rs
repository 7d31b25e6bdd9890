// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const PLACE: LoanPlace = LoanPlace { head: 0, tail: 16, cells: 4, longest: 100 };

type Item = Vec<u8>;

fn words() -> Words {
    Words::private(PLACE.tail + LoanPlace::words(PLACE.cells, PLACE.longest))
}

fn pair() -> (Words, Lender<Item>, Borrower) {
    let words = words();
    let lender = Lender::take_over(words.clone(), PLACE, 7).unwrap();
    (words.clone(), lender, Borrower::take_over(words, PLACE))
}

fn note(paint: u8) -> Note {
    Note { timestamp_ns: 1 << 60 | u64::from(paint), kind: 3, paint }
}

/// Takes one packet with what goes with it.
fn take(borrower: &mut Borrower, memory: Option<&ReadOnly>) -> Option<(Item, Note)> {
    if borrower.look().unwrap() == 0 {
        return None;
    }
    let next = borrower.next().unwrap();
    let mut bytes = vec![0; next.bytes];
    let whole = borrower.copy(&next, memory, &mut bytes);
    borrower.pass();
    borrower.tell();
    whole.then_some((bytes, next.note))
}

/// Memory that packets can be lent from, filled with a row of numbers.
fn memory(bytes: usize) -> (ReadOnly, Item) {
    let words = Words::private(bytes / 8);
    let content: Item = (0..bytes).map(|at| at as u8).collect();
    copy_in(&words, &content);
    (words.into(), content)
}

#[test]
fn copies_arrive_whole_with_their_notes() {
    let (_, mut lender, mut borrower) = pair();
    for bytes in 0..=100u8 {
        let packet: Item = (0..bytes).collect();
        lender.copy(&packet, note(bytes));
        assert_eq!(take(&mut borrower, None), None, "not published yet");
        assert!(lender.publish());
        assert_eq!(take(&mut borrower, None), Some((packet, note(bytes))));
        assert_eq!(lender.look(drop), Ok(4));
    }
}

#[test]
fn lent_packets_come_from_any_byte_and_go_back_in_order() {
    let (_, mut lender, mut borrower) = pair();
    let (memory, content) = memory(1024);
    for first in 0..200usize {
        let length = first * 37 % 101;
        let packet = content[first..first + length].to_vec();
        lender.lend(first as u64, packet.clone(), note(1));
        lender.publish();
        let mut back = Vec::new();
        lender.look(|item| back.push(item)).unwrap();
        assert!(back.is_empty(), "it is lent");
        assert_eq!(take(&mut borrower, Some(&memory)), Some((packet.clone(), note(1))));
        lender.look(|item| back.push(item)).unwrap();
        assert_eq!(back, [packet]);
    }
}

#[test]
fn what_is_out_of_reach_is_refused() {
    let (_, mut lender, mut borrower) = pair();
    let (memory, _) = memory(64);
    for (offset, length, whole) in
        [(0, 64, true), (1, 64, false), (64, 0, true), (65, 0, false), (u64::MAX, 2, false)]
    {
        lender.lend(offset, vec![0; length], note(0));
        lender.publish();
        assert_eq!(take(&mut borrower, Some(&memory)).is_some(), whole, "{offset} {length}");
        lender.look(drop).unwrap();
    }
    lender.lend(0, vec![0; 8], note(0));
    lender.publish();
    assert_eq!(take(&mut borrower, None), None, "memory that is not known");
}

#[test]
fn a_full_channel_has_no_room() {
    let (_, mut lender, mut borrower) = pair();
    for number in 0..4 {
        lender.copy(&[number], note(0));
    }
    lender.publish();
    assert_eq!((lender.room(), lender.look(drop)), (0, Ok(0)));
    assert_eq!(take(&mut borrower, None).unwrap().0, [0]);
    assert_eq!(lender.look(drop), Ok(1));
}

#[test]
fn what_is_recalled_arrives_as_a_copy() {
    let (_, mut lender, mut borrower) = pair();
    let (memory, content) = memory(64);
    lender.lend(3, content[3..9].to_vec(), note(5));
    lender.copy(b"copy", note(6));
    lender.publish();
    // The receiver has seen the cell, but not yet copied the packet.
    assert_eq!(borrower.look(), Ok(2));
    let seen = borrower.next().unwrap();
    let mut back = Vec::new();
    lender.recall(|item| back.push(item));
    assert_eq!(back.len(), 1);
    let mut bytes = [0; 6];
    assert!(borrower.copy(&seen, Some(&memory), &mut bytes));
    assert_eq!(bytes, content[3..9]);
    borrower.pass();
    assert_eq!(take(&mut borrower, None), Some((b"copy".to_vec(), note(6))));
    // Nothing comes back twice.
    lender.look(|_| panic!("it came back before")).unwrap();
    lender.recall(|_| panic!("it came back before"));
}

#[test]
fn successors_go_on() {
    let (words, mut lender, mut borrower) = pair();
    lender.copy(b"1", note(0));
    lender.copy(b"2", note(0));
    lender.publish();
    // Staged, but never published.
    lender.copy(b"lost", note(0));
    drop(lender);
    assert_eq!(take(&mut borrower, None).unwrap().0, b"1");
    let mut lender = Lender::<Item>::take_over(words.clone(), PLACE, 8).unwrap();
    lender.copy(b"3", note(0));
    lender.publish();
    drop(borrower);
    let mut borrower = Borrower::take_over(words, PLACE);
    assert_eq!(take(&mut borrower, None).unwrap().0, b"2");
    assert_eq!(take(&mut borrower, None).unwrap().0, b"3");
    assert_eq!(take(&mut borrower, None), None);
}

/// A receiver's word never frees what it has not taken, or twice.
#[test]
fn a_lying_receiver_is_found_out() {
    for lie in [5, u64::MAX, 3] {
        let (words, mut lender, _) = pair();
        lender.lend(0, b"lent".to_vec(), note(0));
        lender.copy(b"copy", note(0));
        lender.publish();
        words[PLACE.head].store(lie, Ordering::Relaxed);
        assert_eq!(lender.look(|_| panic!("nothing was taken")), Err(Broken), "{lie}");
    }
    let (words, mut lender, _) = pair();
    lender.lend(0, b"lent".to_vec(), note(0));
    lender.publish();
    words[PLACE.head].store(1, Ordering::Relaxed);
    assert_eq!(lender.look(drop), Ok(4));
    words[PLACE.head].store(0, Ordering::Relaxed);
    assert_eq!(lender.look(|_| panic!("it came back before")), Err(Broken));
}

#[test]
fn a_lying_sender_is_found_out() {
    for lie in [5, u64::MAX] {
        let (words, _, mut borrower) = pair();
        words[PLACE.tail].store(lie, Ordering::Relaxed);
        assert_eq!(borrower.look(), Err(Broken));
        assert!(Lender::<Item>::take_over(words, PLACE, 1).is_err());
    }
    let (words, mut lender, mut borrower) = pair();
    lender.copy(b"x", note(0));
    lender.publish();
    assert_eq!(borrower.look(), Ok(1));
    words[PLACE.tail].store(0, Ordering::Relaxed);
    assert_eq!(borrower.look(), Err(Broken));
    // A length that cannot be.
    let (words, mut lender, mut borrower) = pair();
    lender.copy(b"x", note(0));
    lender.publish();
    PLACE.cell(&words, 0)[0].store(101, Ordering::Relaxed);
    assert_eq!((borrower.look(), borrower.next()), (Ok(1), None));
}
