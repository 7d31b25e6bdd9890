// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `xfrm_request` and its corpus' replay share: any datagram is answered by whole messages, and by no more than it asks for.

use std::sync::Arc;

use ipsec::Database;
use sync::rcu::{Domain, Limits};
use xfrm::netlink::{Attributes, Messages, control};
use xfrm::{Client, Local, answer};

/// What came of a datagram's requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests that were refused.
    pub refused: usize,
    /// Answers that were none of errors.
    pub shown: usize,
}

fn count(outcome: &mut Outcome, datagram: &[u8]) {
    let messages: Vec<_> = Messages(datagram).collect();
    let total: usize = messages.iter().map(|message| message.whole.len().next_multiple_of(4)).sum();
    assert_eq!(total, datagram.len(), "whole messages only");
    for message in messages {
        match message.kind {
            control::ERROR => {
                let errno = i32::from_ne_bytes(*message.body.first_chunk().expect("a number"));
                assert!(errno <= 0);
                outcome.refused += usize::from(errno != 0);
            }
            _ => outcome.shown += 1,
        }
        let _ = Attributes(message.body).count();
    }
}

/// Carries out a datagram's requests in empty databases, and then asks for all that is there.
pub fn check(data: &[u8]) -> Outcome {
    let (domain, mut outcome) = (Domain::new(Limits::default()), Outcome::default());
    let database = Arc::new(Database::new(&domain, 1));
    let mut kernel = Local::new(database.clone(), || 1_000_000_000);
    let client = Client {
        port: 7,
        groups: 0,
        wants_words: data.len().is_multiple_of(2),
        wants_heads: data.len().is_multiple_of(3),
    };
    for message in Messages(data) {
        let answer = answer(&mut kernel, &client, &message);
        assert!(answer.datagrams.len() <= 2);
        answer.datagrams.iter().for_each(|datagram| count(&mut outcome, datagram));
        for datagram in answer.dump.into_iter().flatten() {
            count(&mut outcome, &datagram);
        }
    }
    let requests = data.len() / 16;
    assert!(database.associations().len() <= requests && database.policies().len() <= requests);
    outcome
}
