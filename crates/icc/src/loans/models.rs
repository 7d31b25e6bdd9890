// SPDX-License-Identifier: MIT OR Apache-2.0
//! One model for each numbered case of packet channels that threads can show.

use loom::thread;

use super::*;

const PLACE: LoanPlace = LoanPlace { head: 0, tail: 1, cells: 2, longest: 8 };

/// Something that is lent: its bytes lie in the first word of the lent memory.
struct Item([u8; 8]);

impl AsRef<[u8]> for Item {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn words() -> Words {
    Words::private(PLACE.tail + LoanPlace::words(PLACE.cells, PLACE.longest))
}

fn lender(words: &Words) -> Lender<Item> {
    Lender::take_over(words.clone(), PLACE, 1).unwrap()
}

fn take(borrower: &mut Borrower, memory: Option<&ReadOnly>) -> Option<[u8; 8]> {
    if borrower.look().expect("an honest sender") == 0 {
        return None;
    }
    let next = borrower.next().expect("an honest sender");
    let mut bytes = [0; 8];
    assert!(borrower.copy(&next, memory, &mut bytes));
    borrower.pass();
    borrower.tell();
    Some(bytes)
}

/// Cases 1 and 2, copies: through two cells, so that frames are used again.
#[test]
fn models_copies_arrive_whole_and_in_order() {
    loom::model(|| {
        let words = words();
        let theirs = words.clone();
        let sending = thread::spawn(move || {
            let mut lender = lender(&theirs);
            let mut sent = 0;
            for number in 1..=3u8 {
                if lender.room() == 0 && lender.look(drop).unwrap() == 0 {
                    break;
                }
                lender.copy(&[number; 8], Note::default());
                lender.publish();
                sent = number;
            }
            sent
        });
        let mut borrower = Borrower::take_over(words, PLACE);
        let mut taken: Vec<u8> =
            (0..2).filter_map(|_| take(&mut borrower, None)).map(|bytes| check(&bytes)).collect();
        let sent = sending.join().unwrap();
        taken.extend(std::iter::from_fn(|| take(&mut borrower, None)).map(|bytes| check(&bytes)));
        assert_eq!(taken, (1..=sent).collect::<Vec<u8>>());
    });
}

/// All bytes of a packet are of one.
fn check(bytes: &[u8; 8]) -> u8 {
    assert_eq!(*bytes, [bytes[0]; 8], "bytes of two packets");
    bytes[0]
}

/// Case 2, lent: a frame that came back is used for something else, which no receiver sees as the packet.
#[test]
fn models_a_lent_frame_is_reused_only_when_it_is_back() {
    loom::model(|| {
        let (words, memory) = (words(), Words::private(1));
        let (theirs, lent) = (words.clone(), memory.clone());
        let sending = thread::spawn(move || {
            let mut lender = lender(&theirs);
            lent[0].store(u64::from_ne_bytes([1; 8]), Ordering::Relaxed);
            lender.lend(0, Item([1; 8]), Note::default());
            lender.publish();
            let mut back = 0;
            lender.look(|_| back += 1).unwrap();
            if back == 1 {
                lent[0].store(u64::from_ne_bytes([9; 8]), Ordering::Relaxed);
            }
            back
        });
        let memory = memory.into();
        let mut borrower = Borrower::take_over(words, PLACE);
        let mut taken = take(&mut borrower, Some(&memory));
        let back = sending.join().unwrap();
        assert!(back == 0 || taken.is_some(), "a frame came back that was not taken");
        taken = taken.or_else(|| take(&mut borrower, Some(&memory)));
        assert_eq!(taken, Some([1; 8]));
    });
}

/// Case 3: the sender takes a frame back and uses it again while the receiver copies.
#[test]
fn models_what_is_taken_back_arrives_all_the_same() {
    loom::model(|| {
        let (words, memory) = (words(), Words::private(1));
        memory[0].store(u64::from_ne_bytes([1; 8]), Ordering::Relaxed);
        let mut lender = lender(&words);
        lender.lend(0, Item([1; 8]), Note::default());
        lender.publish();
        let lent = memory.clone();
        let sending = thread::spawn(move || {
            let mut back = 0;
            lender.recall(|_| back += 1);
            assert_eq!(back, 1);
            lent[0].store(u64::from_ne_bytes([9; 8]), Ordering::Relaxed);
        });
        let memory = memory.into();
        let mut borrower = Borrower::take_over(words, PLACE);
        assert_eq!(take(&mut borrower, Some(&memory)), Some([1; 8]));
        sending.join().unwrap();
    });
}

/// Cases 4 and 5: each side dies and is replaced while the other goes on.
#[test]
fn models_the_dead_are_replaced() {
    loom::model(|| {
        let words = words();
        let mut dead = lender(&words);
        dead.copy(&[1; 8], Note::default());
        dead.publish();
        // Staged, but never published.
        dead.copy(&[9; 8], Note::default());
        drop(dead);
        let theirs = words.clone();
        let sending = thread::spawn(move || {
            let mut next = lender(&theirs);
            next.copy(&[2; 8], Note::default());
            next.publish();
        });
        let mut dead = Borrower::take_over(words.clone(), PLACE);
        assert_eq!(take(&mut dead, None), Some([1; 8]));
        let mut next = Borrower::take_over(words, PLACE);
        let taken = take(&mut next, None);
        sending.join().unwrap();
        assert_eq!(taken.or_else(|| take(&mut next, None)), Some([2; 8]));
        assert_eq!(take(&mut next, None), None);
    });
}
