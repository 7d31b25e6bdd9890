// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `route_feeds` and its corpus' replay share. The first byte says what the rest is: `F` an FPM stream, anything
//! else netlink messages of the kernel.

use std::time::Duration;

use junctor_control::counters::Tally;
use junctor_control::fpm::Session;
use junctor_control::netlink::{Outcome, decode, messages, rule};

/// Decodes it; says how many changes and rules there were, or where it is malformed.
pub fn check(data: &[u8]) -> Result<usize, String> {
    match data.split_first() {
        Some((b'F', stream)) => fpm(stream),
        Some((_, bytes)) => kernel(bytes),
        None => Ok(0),
    }
}

fn fpm(stream: &[u8]) -> Result<usize, String> {
    let (mut whole, mut tally) = (Vec::new(), Tally::default());
    let mut session = Session::new(Duration::ZERO, Duration::ZERO, &mut whole);
    let result = session.take(stream, Duration::ZERO, &mut whole, &mut tally);

    // In two reads, it gives the same.
    let (mut changes, mut tally) = (Vec::new(), Tally::default());
    let mut session = Session::new(Duration::ZERO, Duration::ZERO, &mut changes);
    let half = session.take(&stream[..stream.len() / 2], Duration::ZERO, &mut changes, &mut tally);
    let parts = half.and_then(|half| {
        let rest = session.take(&stream[half..], Duration::ZERO, &mut changes, &mut tally)?;
        Ok(half + rest)
    });
    assert_eq!((&result, &whole), (&parts, &changes));
    let taken = result.map_err(|e| e.to_string())?;
    assert!(taken <= stream.len());
    Ok(whole.len() - 1)
}

fn kernel(bytes: &[u8]) -> Result<usize, String> {
    let (mut changes, mut rules) = (Vec::new(), 0);
    for message in messages(bytes) {
        let message = message.map_err(|e| e.to_string())?;
        assert!(message.at + message.body.len() <= bytes.len());
        let _ = (message.dump_end(), message.is_interrupted(), message.appends());
        let before = changes.len();
        let result = decode(&message, &mut changes);
        let added = changes.len() - before;
        match result {
            Ok(Outcome::Taken) => assert_eq!(added, 1),
            Ok(Outcome::Unsupported) => assert!(added <= 1),
            Ok(Outcome::Ignored) | Err(_) => assert_eq!(added, 0),
        }
        if let Err(e) = result {
            assert!(e.at <= bytes.len(), "{e}");
        }
        rules += usize::from(matches!(rule(&message), Ok(Some(_))));
    }
    Ok(changes.len() + rules)
}
