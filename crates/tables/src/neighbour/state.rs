// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of a neighbour, as RFC 4861 section 7.3.2 names them, and the table of its appendix C.
//!
//! ```text
//!                packet                    answer to a query
//!     no entry ----------> [ Incomplete ] --------------------> [ Reachable ] <----------+
//!        ^                    |   |    |                          |       ^              |
//!        |  queries in vain   |   |    | heard from it            | time  | answer       | answer
//!        +--------------------+   |    v                          v       |              |
//!        |                        +-> [ Stale ] <-----------------+       |              |
//!        |                               |  ^  other address heard        |              |
//!        |                               |  +--------- from all others    |              |
//!        |                               | packet                         |              |
//!        |                               v             time               |              |
//!        |                            [ Delay ] ----------------> [ Probe ] -------------+
//!        |                               +--------------------------------^ (answer: as in Probe)
//!        +----------------------------------- queries in vain ------+
//!
//!     [ Permanent ]  set from outside; nothing that is heard changes it
//! ```
//!
//! [`step`] is that appendix row by row: what the table in the RFC says, this function does. It knows no time and no addresses, so that a reader can
//! hold the two side by side.

/// How much is known about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for, no answer yet (or it was removed, or its answer expired).
    Incomplete,
    /// Confirmed recently.
    Reachable,
    /// Known, but not confirmed lately: the next packet starts to ask again.
    Stale,
    /// In use since it was stale; a hint from elsewhere may still spare the query.
    Delay,
    /// In use, and being asked whether it is still there.
    Probe,
    /// Set from outside: never asked for, never forgotten.
    Permanent,
}

/// A link-layer address in a message, compared with what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// There was none.
    Nothing,
    /// The one that is known.
    Same,
    /// Another one, or none is known.
    Other,
}

/// What happens to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet is sent to it.
    Packet,
    /// Its timer expired; `more` says whether further queries are allowed.
    Timer {
        /// Fewer queries were sent than the limit.
        more: bool,
    },
    /// The reachable time has passed since it was last confirmed.
    Aged,
    /// An advertisement.
    Advert {
        /// It answers a query.
        solicited: bool,
        /// It replaces what is known.
        replaces: bool,
        /// The address in it.
        mac: Heard,
    },
    /// Another message of its own making, with its address: solicitation, router advertisement, redirect.
    Message(Heard),
    /// Something above knows that packets reach it.
    Confirmed,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing but the change of state.
    Nothing,
    /// Ask every station, and start the retransmission timer.
    Ask,
    /// Ask the neighbour, and start the retransmission timer.
    AskIt,
    /// Start the delay timer.
    Wait,
    /// Note the address in the message, and send what waits for it.
    Record,
    /// Note that it was confirmed now.
    Confirm,
    /// Both of these.
    RecordAndConfirm,
    /// Remove the entry; what waits is unreachable.
    Discard,
}

/// Appendix C of RFC 4861: what a neighbour in `state` does on `event`, and its next state.
///
/// The rows for a neighbour without an entry are the caller's: a packet makes one, `Incomplete`, and asks; a message other
/// than an advertisement makes one that is `Stale`; an advertisement makes none.
#[rustfmt::skip]
pub fn step(state: State, event: Event) -> (Action, State) {
    use Action::{Ask, AskIt, Confirm, Discard, Nothing, Record, RecordAndConfirm, Wait};
    use Event::{Advert, Aged, Confirmed, Message, Packet, Timer};
    use State::{Delay, Incomplete, Permanent, Probe, Reachable, Stale};
    match (state, event) {
        // State                          Event                                                             Action           New state
        (Permanent,                       _)                                                            => (Nothing,          Permanent),

        (Incomplete,                      Timer { more: true })                                         => (Ask,              Incomplete),
        (Incomplete,                      Timer { more: false })                                        => (Discard,          Incomplete),
        (_,                               Advert { mac: Heard::Nothing, .. }) if state == Incomplete    => (Nothing,          Incomplete),
        (Incomplete,                      Advert { solicited: true, .. })                               => (RecordAndConfirm, Reachable),
        (Incomplete,                      Advert { solicited: false, .. })                              => (Record,           Stale),
        (Incomplete,                      Message(Heard::Nothing))                                      => (Nothing,          Incomplete),
        (Incomplete,                      Message(_))                                                   => (Record,           Stale),
        (Incomplete,                      Packet | Aged | Confirmed)                                    => (Nothing,          Incomplete),

        // Without an address, or with the known one, an advertisement confirms if it was asked for (section 7.2.5).
        (_, Advert { solicited: true, mac: Heard::Nothing | Heard::Same, .. })                          => (Confirm,          Reachable),
        (_, Advert { solicited: false, mac: Heard::Nothing | Heard::Same, .. })                         => (Nothing,          state),
        (_, Advert { solicited: true, replaces: true, mac: Heard::Other })                              => (RecordAndConfirm, Reachable),
        (_, Advert { solicited: false, replaces: true, mac: Heard::Other })                             => (Record,           Stale),
        (Reachable, Advert { replaces: false, mac: Heard::Other, .. })                                  => (Nothing,          Stale),
        (_, Advert { replaces: false, mac: Heard::Other, .. })                                          => (Nothing,          state),

        (_,                               Message(Heard::Other))                                        => (Record,           Stale),
        (_,                               Message(_))                                                   => (Nothing,          state),
        (_,                               Confirmed)                                                    => (Confirm,          Reachable),

        (Reachable,                       Aged)                                                         => (Nothing,          Stale),
        (Stale,                           Packet)                                                       => (Wait,             Delay),
        (Delay,                           Timer { .. })                                                 => (AskIt,            Probe),
        (Probe,                           Timer { more: true })                                         => (AskIt,            Probe),
        (Probe,                           Timer { more: false })                                        => (Discard,          Probe),
        (_,                               Packet | Aged | Timer { .. })                                 => (Nothing,          state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{Ask, AskIt, Confirm, Discard, Nothing, Record, RecordAndConfirm, Wait};
    use State::{Delay, Incomplete, Permanent, Probe, Reachable, Stale};

    const KNOWN: [State; 4] = [Reachable, Stale, Delay, Probe];

    fn check(states: &[State], events: &[Event], action: Action, next: Option<State>) {
        for state in states {
            for event in events {
                assert_eq!(step(*state, *event), (action, next.unwrap_or(*state)), "{state:?} {event:?}");
            }
        }
    }

    /// Advertisements with the given flags; `None` stands for both values.
    fn adverts(solicited: Option<bool>, replaces: Option<bool>, mac: Heard) -> Vec<Event> {
        let each = |flag: Option<bool>| flag.map_or(vec![false, true], |f| vec![f]);
        let pairs = each(solicited).into_iter().flat_map(|s| each(replaces).into_iter().map(move |r| (s, r)));
        pairs.map(|(solicited, replaces)| Event::Advert { solicited, replaces, mac }).collect()
    }

    /// The rows of appendix C in its order, those about neighbours that have an entry.
    #[test]
    fn appendix_c_of_rfc_4861() {
        use Heard::{Nothing as No, Other, Same};
        let adv = adverts;
        check(&[Incomplete], &[Event::Timer { more: true }], Ask, None);
        check(&[Incomplete], &[Event::Timer { more: false }], Discard, None);
        check(&[Incomplete], &adv(Some(false), None, Other), Record, Some(Stale));
        check(&[Incomplete], &adv(Some(true), None, Other), RecordAndConfirm, Some(Reachable));
        check(&[Incomplete], &adv(None, None, No), Nothing, None);
        check(&KNOWN, &adv(Some(true), Some(false), Same), Confirm, Some(Reachable));
        check(&KNOWN, &adv(Some(true), None, No), Confirm, Some(Reachable));
        check(&KNOWN, &adv(Some(false), None, No), Nothing, None);
        check(&[Reachable], &adv(Some(true), Some(false), Other), Nothing, Some(Stale));
        check(&KNOWN[1..], &adv(Some(true), Some(false), Other), Nothing, None);
        check(&KNOWN, &adv(Some(true), Some(true), Other), RecordAndConfirm, Some(Reachable));
        check(&KNOWN, &adv(Some(true), Some(true), Same), Confirm, Some(Reachable));
        check(&KNOWN, &adv(Some(false), Some(true), Same), Nothing, None);
        check(&KNOWN, &adv(Some(false), Some(true), Other), Record, Some(Stale));
        check(&KNOWN, &[Event::Confirmed], Confirm, Some(Reachable));
        check(&[Reachable], &[Event::Aged], Nothing, Some(Stale));
        check(&[Stale], &[Event::Packet], Wait, Some(Delay));
        check(&[Delay], &[Event::Timer { more: true }], AskIt, Some(Probe));
        check(&[Probe], &[Event::Timer { more: true }], AskIt, None);
        check(&[Probe], &[Event::Timer { more: false }], Discard, None);
        check(&[Incomplete], &[Event::Message(Other)], Record, Some(Stale));
        check(&KNOWN, &[Event::Message(Same)], Nothing, None);
        check(&KNOWN, &[Event::Message(Other)], Record, Some(Stale));
    }

    #[test]
    fn nothing_changes_a_permanent_neighbour() {
        let events = [Event::Packet, Event::Timer { more: false }, Event::Message(Heard::Other)];
        check(&[Permanent], &events, Nothing, None);
        check(&[Permanent], &adverts(None, None, Heard::Other), Nothing, None);
    }
}
