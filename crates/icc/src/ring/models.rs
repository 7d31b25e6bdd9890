// SPDX-License-Identifier: MIT OR Apache-2.0
//! One model for each numbered case of the ring. What they cannot show is a load that returns a store of the future (case 2 with a relaxed position): loom runs
//! each thread in its order.

use loom::thread;

use super::*;

/// Cells of two words: a header and a word.
const CELL: usize = 2;

fn place(cells: u64) -> RingPlace {
    RingPlace { head: 0, data: 1, cells, longest: 24 }
}

fn words(place: RingPlace) -> Words {
    Words::private(place.data + place.cells as usize * CELL)
}

fn pop(consumer: &mut Consumer<CELL>) -> Option<Vec<u8>> {
    let bytes = consumer.next_bytes().expect("an honest producer")?;
    let mut item = vec![0; bytes];
    consumer.take(&mut item);
    consumer.tell();
    Some(item)
}

/// Cases 1 to 3: through two cells, so that laps meet, and items of one cell and of two.
#[test]
fn models_items_arrive_whole_and_in_order() {
    loom::model(|| {
        let place = place(2);
        let words = words(place);
        let mut producer = Producer::<CELL>::take_over(words.clone(), place).unwrap();
        let producing = thread::spawn(move || {
            let mut sent = 0u8;
            for item in [&[1; 8][..], &[2; 16], &[3; 8]] {
                for _ in 0..2 {
                    match producer.push(item) {
                        Ok(()) => {
                            sent += 1;
                            break;
                        }
                        Err(why) => {
                            assert_eq!(why, NotPushed::Full);
                            thread::yield_now();
                        }
                    }
                }
                if sent < item[0] {
                    break;
                }
            }
            sent
        });
        let mut consumer = Consumer::<CELL>::take_over(words, place);
        let mut next = 1;
        let mut take = |consumer: &mut Consumer<CELL>| {
            if let Some(item) = pop(consumer) {
                assert_eq!(item, vec![next; if next == 2 { 16 } else { 8 }]);
                next += 1;
            }
        };
        for _ in 0..2 {
            take(&mut consumer);
        }
        let sent = producing.join().unwrap();
        for _ in 0..3 {
            take(&mut consumer);
        }
        assert_eq!(next, sent + 1, "all that was sent was taken");
    });
}

/// Case 4: a producer dies at any store of an item of two cells; its successor goes on while the consumer takes.
#[test]
fn models_a_producer_is_replaced() {
    for stores in 0..2 {
        loom::model(move || {
            let place = place(4);
            let words = words(place);
            Producer::<CELL>::take_over(words.clone(), place).unwrap().push(&[1; 8]).unwrap();
            // The dead one's further header, without the first.
            if stores == 1 {
                cell::<CELL>(&words, place, 2)[0].store(header(2, MORE), Ordering::Relaxed);
            }
            let theirs = words.clone();
            let producing = thread::spawn(move || {
                let mut next = Producer::<CELL>::take_over(theirs, place).unwrap();
                next.push(&[2; 8]).unwrap();
                next.push(&[3; 8]).unwrap();
            });
            let mut consumer = Consumer::<CELL>::take_over(words, place);
            let mut taken: Vec<u8> = (0..3).filter_map(|_| pop(&mut consumer)).map(|item| item[0]).collect();
            producing.join().unwrap();
            taken.extend(std::iter::from_fn(|| pop(&mut consumer)).map(|item| item[0]));
            assert_eq!(taken, [1, 2, 3]);
        });
    }
}

/// Case 5: a consumer dies before or after it says what it has taken; its successor begins there.
#[test]
fn models_a_consumer_is_replaced() {
    for told in [false, true] {
        loom::model(move || {
            let place = place(2);
            let words = words(place);
            let mut producer = Producer::<CELL>::take_over(words.clone(), place).unwrap();
            producer.push(&[1; 8]).unwrap();
            producer.push(&[2; 8]).unwrap();
            let producing = thread::spawn(move || producer.push(&[3; 8]));
            let mut dead = Consumer::<CELL>::take_over(words.clone(), place);
            assert_eq!(dead.next_bytes(), Ok(Some(8)));
            dead.take(&mut [0; 8]);
            if told {
                dead.tell();
            }
            let mut next = Consumer::<CELL>::take_over(words, place);
            let first = if told { 2 } else { 1 };
            assert_eq!(pop(&mut next), Some(vec![first; 8]));
            let third = producing.join().unwrap().is_ok();
            let rest: Vec<u8> = std::iter::from_fn(|| pop(&mut next)).map(|item| item[0]).collect();
            let want: Vec<u8> = (first + 1..=if third { 3 } else { 2 }).collect();
            assert_eq!(rest, want);
        });
    }
}
