// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of associations that go on.

use super::{Database, Error};
use crate::association::{AssociationConfig, Id};

impl Database {
    /// Gives the association of this identity the limits and UDP ports of `config`. Keys, sequence numbers, window, counters, age and selector stay, and no worker waits.
    /// If the number is only promised, adds the association. Linux has the same (`xfrm_state_update`).
    ///
    /// # Errors
    /// There is neither, [`Error::Encapsulation`], or why it was not added.
    pub fn adjust(&self, config: AssociationConfig, now_ns: u64) -> Result<(), Error> {
        let id = config.id();
        let mut writer = self.lock();
        let Some(association) = writer.associations.get(&id).filter(|there| !there.is_over()).cloned() else {
            drop(writer);
            return if self.is_reserved(id, now_ns) {
                self.add(config, false, now_ns).map(drop)
            } else {
                Err(Error::NoAssociation(id))
            };
        };
        if config.esp.udp.is_some() != association.sa.by_udp {
            return Err(Error::Encapsulation(id));
        }
        association.adjust(&config.limits, config.esp.udp);
        self.look_at_count(&association);
        writer.look_again(&association, now_ns);
        Ok(())
    }

    /// Gives a promised number back. Returns whether it was promised, and no association had it.
    pub fn give_back(&self, id: Id, now_ns: u64) -> bool {
        let mut writer = self.lock();
        !writer.associations.contains_key(&id)
            && writer.reserved.remove(&id).is_some_and(|until| until > now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::lifetime::{Limits, Reached};
    use crate::text::parse_association;
    use esp::sa::UdpPorts;
    use std::time::Duration;
    use sync::rcu::Domain;

    const TEXT: &str = "src 192.0.2.1 dst 192.0.2.2 spi 0x100 reqid 7 encap espinudp 4500 4500 0.0.0.0 \
                        sel src 10.0.0.0/8 dst 10.1.0.0/16 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";

    fn config(more: &str) -> AssociationConfig {
        parse_association(&format!("{TEXT} {more}")).unwrap()
    }

    fn reached(database: &Database) -> Vec<Reached> {
        let reached = |event| match event {
            Event::Expire { reached, .. } => reached,
            other => panic!("{other:?}"),
        };
        database.events.take(9, Duration::ZERO).events.into_iter().map(reached).collect()
    }

    #[test]
    fn an_association_goes_on_with_other_ports_and_limits() {
        let database = Database::new(&Domain::default(), 2);
        let association = database.add(config(""), false, 5).unwrap();
        association.sa.take_numbers(17).unwrap();
        association.sa.window.accept(40).unwrap();
        association.lines.passed(1, 100, 7);
        let mut other = config("limit byte-soft 1000 limit time-hard 60");
        other.esp.udp = Some(UdpPorts { from: 4500, to: 61_000 });
        other.selector = None;
        other.reqid = 9;
        database.adjust(other.clone(), 9).unwrap();
        let now = database.association(config("").id()).unwrap();
        assert!(std::sync::Arc::ptr_eq(&now, &association), "workers have the same one");
        assert_eq!(
            (now.sa.sent(), now.sa.window.top(), now.lines.usage().bytes, now.made_ns),
            (17, 40, 100, 5)
        );
        let shown = now.current();
        assert_eq!((shown.esp.udp, shown.limits), (other.esp.udp, other.limits));
        assert_eq!((shown.reqid, shown.selector), (7, config("").selector));
        // The new limits count: 60 s after it was made.
        assert_eq!(database.tick(10), Some(60_000_000_005));
        database.count(&now, 0, 900, 11);
        assert_eq!(reached(&database), [Reached::Soft]);
        database.tick(60_000_000_005);
        assert_eq!(reached(&database), [Reached::Hard]);
        assert_eq!(database.adjust(config(""), 60_000_000_006), Err(Error::NoAssociation(other.id())));
    }

    #[test]
    fn limits_that_are_reached_already_are_said_again() {
        let database = Database::new(&Domain::default(), 1);
        let association = database.add(config("limit packet-soft 2"), false, 0).unwrap();
        (0..3).for_each(|_| assert!(database.count(&association, 0, 1, 1)));
        assert_eq!(reached(&database), [Reached::Soft]);
        database.adjust(config("limit packet-soft 3 limit time-soft 4"), 2).unwrap();
        assert_eq!(reached(&database), [Reached::Soft], "as in Linux, where the state is no longer dying");
        database.adjust(config(""), 3).unwrap();
        (0..9).for_each(|_| assert!(database.count(&association, 0, 1, 4)));
        assert_eq!((reached(&database), association.current().limits), (vec![], Limits::default()));
        assert_eq!(database.tick(u64::MAX / 2), None, "nothing ends it any more");
        database.adjust(config("limit packet-hard 3"), 5).unwrap();
        assert_eq!(reached(&database), [Reached::Hard]);
        database.tick(6);
        assert!(database.associations().is_empty());
    }

    #[test]
    fn encapsulation_neither_comes_nor_goes() {
        let database = Database::new(&Domain::default(), 1);
        database.add(config(""), false, 0).unwrap();
        let mut without = config("limit time-hard 1");
        without.esp.udp = None;
        assert_eq!(database.adjust(without.clone(), 1), Err(Error::Encapsulation(without.id())));
        assert_eq!(database.association(without.id()).unwrap().current().limits, Limits::default());
        database.add(without, true, 1).unwrap();
        assert_eq!(database.adjust(config(""), 2), Err(Error::Encapsulation(config("").id())));
    }

    #[test]
    fn promised_numbers_are_used_or_given_back() {
        let database = Database::new(&Domain::default(), 1);
        let id = config("").id();
        assert_eq!(database.adjust(config(""), 0), Err(Error::NoAssociation(id)));
        let promise = || database.reserve(id.dst, 0x100..=0x100, 0, || 0).unwrap();
        promise();
        assert!(database.give_back(id, 1) && !database.give_back(id, 1));
        promise();
        database.adjust(config(""), 1).unwrap();
        assert!(!database.give_back(id, 1));
        assert_eq!(database.associations().len(), 1);
    }
}
