// SPDX-License-Identifier: MIT OR Apache-2.0
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const CELL: usize = 8;

fn place(cells: u64, longest: usize) -> RingPlace {
    RingPlace { head: 0, data: 16, cells, longest }
}

fn words(place: RingPlace) -> Words {
    Words::private(place.data + place.cells as usize * CELL)
}

fn ends(words: &Words, place: RingPlace) -> (Producer<CELL>, Consumer<CELL>) {
    (Producer::take_over(words.clone(), place).unwrap(), Consumer::take_over(words.clone(), place))
}

fn pop(consumer: &mut Consumer<CELL>) -> Result<Option<Vec<u8>>, Broken> {
    let Some(bytes) = consumer.next_bytes()? else { return Ok(None) };
    let mut item = vec![0; bytes];
    consumer.take(&mut item);
    consumer.tell();
    Ok(Some(item))
}

#[derive(Clone, Debug)]
enum Op {
    Push(usize),
    Pop,
    NewProducer,
    NewConsumer,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0usize..300).prop_map(Op::Push),
        6 => Just(Op::Pop),
        1 => Just(Op::NewProducer),
        1 => Just(Op::NewConsumer),
    ];
    prop::collection::vec(op, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..Default::default() })]
    /// Against a queue of byte strings, from positions around the ends of 32 and of 64 bits on.
    #[test]
    fn equals_a_queue(cells in 4u32..7, begin in prop_oneof![
        Just(0u64), (0u64..40).prop_map(|n| (1 << 32) - n), (0u64..40).prop_map(|n| u64::MAX - n)
    ], ops in ops()) {
        let place = place(1 << cells, 300);
        let words = begun(place, begin);
        let (mut producer, mut consumer) = ends(&words, place);
        let (mut model, mut used, mut number) = (VecDeque::<Vec<u8>>::new(), 0, 0u8);
        for op in ops {
            match op {
                Op::Push(bytes) => {
                    number = number.wrapping_add(1);
                    let item = vec![number; bytes];
                    let fits = used + cells_of::<CELL>(bytes) <= place.cells;
                    prop_assert_eq!(producer.push(&item), if fits { Ok(()) } else { Err(NotPushed::Full) });
                    if fits {
                        used += cells_of::<CELL>(bytes);
                        model.push_back(item);
                    }
                }
                Op::Pop => {
                    let item = model.pop_front();
                    used -= item.as_ref().map_or(0, |item| cells_of::<CELL>(item.len()));
                    prop_assert_eq!(pop(&mut consumer), Ok(item));
                }
                Op::NewProducer => producer = Producer::take_over(words.clone(), place).unwrap(),
                Op::NewConsumer => consumer = Consumer::take_over(words.clone(), place),
            }
        }
    }

    /// Any words at all: an item, nothing, or broken; never out of bounds, never without end.
    #[test]
    fn any_words_do_no_harm(
        start in prop::collection::vec(any::<u64>(), 16 + 8 * CELL),
        changes in prop::collection::vec((0usize..16 + 8 * CELL, prop_oneof![any::<u64>(), (0u64..20).prop_map(|tag| tag << 32 | 56)]), 0..60),
        head in prop_oneof![Just(0u64), any::<u64>()],
    ) {
        let place = place(8, 200);
        let words = words(place);
        for (word, value) in words.iter().zip(start) {
            word.store(value, Ordering::Relaxed);
        }
        words[0].store(head, Ordering::Relaxed);
        let mut consumer = Consumer::<CELL>::take_over(words.clone(), place);
        let mut producer = Producer::<CELL>::take_over(words.clone(), place);
        for (at, value) in changes {
            words[at].store(value, Ordering::Relaxed);
            if let Ok(Some(item)) = pop(&mut consumer) {
                prop_assert!(item.len() <= place.longest);
            }
            if let Ok(producer) = &mut producer {
                let _ = producer.push(&[1; 100]);
            }
        }
    }
}

/// Words of a ring at this position, as those would be who had been there.
fn begun(place: RingPlace, begin: u64) -> Words {
    let words = words(place);
    words[0].store(begin, Ordering::Relaxed);
    for back in 1..=place.cells.min(begin) {
        let position = begin - back;
        cell::<CELL>(&words, place, position)[0].store(header(position, 1), Ordering::Relaxed);
    }
    words
}

#[test]
fn positions_of_the_other_side_are_checked() {
    let place = place(8, 200);
    for wrong in [1u64, 9, u64::MAX, 1 << 40] {
        let words = words(place);
        let (mut producer, _) = ends(&words, place);
        words[0].store(wrong, Ordering::Relaxed);
        let until_refused: Vec<_> = (0..9).map(|_| producer.push(&[1])).collect();
        // One item ahead of what the consumer could have taken is possible only after eight were sent.
        let want = if wrong == 1 { Ok(()) } else { Err(NotPushed::Broken) };
        assert_eq!(until_refused[8], want, "{wrong}");
    }
    let words = words(place);
    let (mut producer, mut consumer) = ends(&words, place);
    for _ in 0..20 {
        producer.push(&[1]).unwrap();
        pop(&mut consumer).unwrap().unwrap();
    }
    words[0].store(3, Ordering::Relaxed);
    let refused = (0..9).map(|_| producer.push(&[1])).find_map(Result::err);
    assert_eq!(refused, Some(NotPushed::Broken), "backwards");
}

#[test]
fn headers_of_the_other_side_are_checked() {
    let place = place(8, 200);
    let seen = |value: u64| {
        let words = words(place);
        words[16].store(value, Ordering::Relaxed);
        Consumer::<CELL>::take_over(words, place).next_bytes()
    };
    assert_eq!(seen(0), Ok(None));
    assert_eq!(seen(1 << 32 | 200), Ok(Some(200)));
    assert_eq!(seen(1 << 32 | 201), Err(Broken));
    assert_eq!(seen(1 << 32 | u64::from(MORE)), Ok(None));
    for tag in [2u64, 8, 9, 17, 1 << 31, (1 << 32) - 1] {
        assert_eq!(seen(tag << 32 | 8), Err(Broken), "{tag}");
    }
}

#[test]
fn a_producer_that_died_within_an_item_leaves_whole_ones() {
    let place = place(8, 200);
    let words = words(place);
    let (mut producer, mut consumer) = ends(&words, place);
    producer.push(b"whole").unwrap();
    // Dead before the first header of an item of three cells.
    for position in [2, 3] {
        cell::<CELL>(&words, place, position)[0].store(header(position, MORE), Ordering::Relaxed);
    }
    let mut next = Producer::<CELL>::take_over(words.clone(), place).unwrap();
    next.push(b"next").unwrap();
    assert_eq!(pop(&mut consumer), Ok(Some(b"whole".to_vec())));
    assert_eq!(pop(&mut consumer), Ok(Some(b"next".to_vec())));
    assert_eq!(pop(&mut consumer), Ok(None));
    next.push(&[7; 150]).unwrap();
    assert_eq!(pop(&mut consumer), Ok(Some(vec![7; 150])));
}

#[test]
fn items_run_between_threads_in_order() {
    let place = place(16, 200);
    let words = words(place);
    let (mut producer, mut consumer) = ends(&words, place);
    let items = if cfg!(miri) { 200u64 } else { 100_000 };
    let bytes = |number: u64| (number * 7 % 193) as usize + 8;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..items {
                let mut item = vec![number as u8; bytes(number)];
                item[..8].copy_from_slice(&number.to_ne_bytes());
                while producer.push(&item) == Err(NotPushed::Full) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..items {
            let item = loop {
                match pop(&mut consumer).unwrap() {
                    Some(item) => break item,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(item.len(), bytes(number));
            assert_eq!(item[..8], number.to_ne_bytes());
            assert!(item[8..].iter().all(|byte| *byte == number as u8));
        }
    });
}
