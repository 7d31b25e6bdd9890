// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `xfrm_words` and its corpus' replay share: any text as what a router says. It ends in whole messages or refusals. An event is written as it was
//! read, and no refusal shows a key.

use ipsec::text::{secrets, show_event};
use xfrm::netlink::{Attributes, Builder, Messages, control, flag};
use xfrm::{Calls, Client, Refusal, Remote, answer, heard_of, layout, message_of, refusal_of};

/// What came of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Events in it.
    pub events: usize,
    /// Associations and policies that were shown.
    pub shown: usize,
    /// Requests that were refused.
    pub refused: usize,
}

/// A router that says the same to everything.
struct Says<'a>(&'a str);

impl Calls for Says<'_> {
    fn read(&mut self, _: &str, _: &str) -> Result<String, Refusal> {
        Ok(self.0.to_owned())
    }

    fn write(&mut self, _: &str, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A request without attributes.
fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Builder::new(kind, flag::REQUEST | flags, 1, 7);
    message.put(body);
    message.finish().to_vec()
}

fn requests() -> Vec<Vec<u8>> {
    use layout::message as m;
    let daddr = std::net::IpAddr::from([192, 0, 2, 2]).into();
    let family = layout::family::FOUR;
    let sa_id = layout::SaId { daddr, spi: layout::Spi(0x100), family, proto: layout::ESP };
    let sel = layout::Selector { family, ..Default::default() };
    let id = layout::Id { daddr, spi: layout::Spi(0), proto: layout::ESP };
    let info = layout::Sa { id, family, ..Default::default() };
    let policy = layout::PolicyId { sel, dir: 1, ..Default::default() };
    let by_index = layout::PolicyId { index: 9, dir: 1, ..Default::default() };
    vec![
        request(m::GETSA, flag::DUMP, &[]),
        request(m::GETPOLICY, flag::DUMP, &[]),
        request(m::GETSA, 0, &sa_id.bytes()),
        request(m::DELSA, 0, &sa_id.bytes()),
        request(m::GETAE, 0, &layout::AeventId { sa_id, ..Default::default() }.bytes()),
        request(m::ALLOCSPI, 0, &layout::SpiInfo { info, min: 0x100, max: 0x200 }.bytes()),
        request(m::GETPOLICY, 0, &policy.bytes()),
        request(m::DELPOLICY, 0, &by_index.bytes()),
        request(m::GETSADINFO, 0, &[0; 4]),
        request(m::GETSPDINFO, 0, &[0; 4]),
    ]
}

/// Whole messages, of which none is a refusal that shows a key.
fn count(outcome: &mut Outcome, text: &str, datagram: &[u8]) {
    let messages: Vec<_> = Messages(datagram).collect();
    let total: usize = messages.iter().map(|message| message.whole.len().next_multiple_of(4)).sum();
    assert_eq!(total, datagram.len(), "whole messages only");
    for message in messages {
        let _ = Attributes(message.body).count();
        match message.kind {
            control::ERROR => {
                outcome.refused += 1;
                let words = String::from_utf8_lossy(message.body);
                let mut keys = secrets(text).into_iter().map(|place| &text[place]);
                let leaked = keys.find(|key| key.len() >= 18 && words.contains(key));
                assert_eq!(leaked, None, "{words}");
            }
            control::DONE => {}
            _ => outcome.shown += 1,
        }
    }
}

/// Takes a text for the answer to each request, and for events.
pub fn check(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    assert!(refusal_of(text).errno > 0);
    let heard = heard_of(text);
    for event in &heard.events {
        let line = show_event(event);
        assert_eq!(heard_of(&line).events, std::slice::from_ref(event), "{line}");
        let (_, bytes) = message_of(event, None);
        assert_eq!(Messages(&bytes).map(|message| message.whole.len()).sum::<usize>(), bytes.len());
    }
    outcome.events = heard.events.len();
    let client = Client { port: 7, wants_words: true, wants_heads: true, ..Client::default() };
    let mut kernel = Remote::new(Says(text));
    for request in requests() {
        let message = Messages(&request).next().expect("a request");
        let answer = answer(&mut kernel, &client, &message);
        answer.datagrams.iter().for_each(|datagram| count(&mut outcome, text, datagram));
        answer.dump.into_iter().flatten().for_each(|datagram| count(&mut outcome, text, &datagram));
    }
    outcome
}
