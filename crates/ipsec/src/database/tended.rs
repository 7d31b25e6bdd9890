// SPDX-License-Identifier: MIT OR Apache-2.0
//! Associations that are to be tended: packets leave by them that nobody asked for, as dummy packets and keep-alives.
//!
//! Few associations are of that kind, so their targets are in a table of their own. Workers walk through it without a lock, some buckets at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sync::rcu::Reader;

use super::Database;
use super::writer::Writer;
use crate::association::Association;
use crate::buckets::Busy;
use crate::targets::Target;

/// Buckets that a step of a walk takes. Each has one association on average, at most.
const STEP: usize = 512;

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkPosition {
    table: usize,
    bucket: usize,
}

/// Which associations a walk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those that are to be tended.
    Tended,
    /// All that protect packets.
    All,
}

pub(super) fn hash(target: &Arc<Target>) -> u64 {
    wire::hash::mix(Arc::as_ptr(target).addr() as u64, 0, 0x2545_f491_4f6c_dd1d)
}

impl Database {
    /// Calls `each` for some of the associations that policies for packets that leave use now, beginning at a place. Returns where to go on, or `None` at the end.
    ///
    /// A step takes a bounded number of associations. One that several policies use may come several times. Those that are put in or taken out
    /// meanwhile may come or not.
    pub fn walk<'a>(
        &'a self,
        whose: Whose,
        WalkPosition { table, bucket }: WalkPosition,
        reader: &'a Reader,
        mut each: impl FnMut(&'a Association),
    ) -> Option<WalkPosition> {
        if whose == Whose::All {
            let target = |rule: &'a crate::spd::Rule| rule.target.as_ref()?.current(reader);
            let next = self.policies[0].walk((table, bucket), STEP, reader, |rule| {
                target(rule).into_iter().for_each(|association| each(association));
            });
            return next.map(|(table, bucket)| WalkPosition { table, bucket });
        }
        for bucket in bucket..bucket + STEP {
            let targets = self.tended.at(bucket, reader)?;
            targets.into_iter().filter_map(|target| target.current(reader)).for_each(|a| each(a));
        }
        Some(WalkPosition { table, bucket: bucket + STEP })
    }

    /// Brings the table of tended targets up to date. What must wait for readers, or for whole tables, is done by [`tidy`](Self::tidy).
    pub(super) fn list_tended(&self, writer: &mut Writer) {
        if writer.pending.is_some() {
            return;
        }
        while let Some(key) = writer.unlisted.last() {
            let wanted =
                writer.targets.get(key).filter(|used| used.is_to_be_tended()).map(|used| &used.target);
            let there = writer.tended.get(key);
            if wanted.map(Arc::as_ptr) != there.map(Arc::as_ptr) {
                let count = writer.tended.len() + 1;
                if self.relist(there, wanted, count).is_err() {
                    self.is_untidy.store(true, Ordering::Relaxed);
                    return;
                }
                match wanted.cloned() {
                    Some(target) => writer.tended.insert(key.clone(), target),
                    None => writer.tended.remove(key),
                };
            }
            writer.unlisted.pop();
        }
    }

    fn relist(
        &self,
        there: Option<&Arc<Target>>,
        wanted: Option<&Arc<Target>>,
        count: usize,
    ) -> Result<(), Busy> {
        let reader = self.domain.register("ipsec");
        self.tended.make_room(count, &reader, hash)?;
        if let Some(target) = wanted {
            self.tended.change(hash(target), &reader, |targets| {
                targets.retain(|other| !Arc::ptr_eq(other, target));
                targets.push(target.clone());
            })?;
        }
        if let Some(there) = there {
            self.tended.change(hash(there), &reader, |targets| {
                targets.retain(|other| !Arc::ptr_eq(other, there));
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{parse_association, parse_policy, parse_policy_key};
    use crate::{Configured, Id};
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;
    use sync::rcu::Domain;

    const MANY: u32 = 100_000;

    fn dst(number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(0x0a00_0000 | number)
    }

    fn association(number: u32, spi: u32, more: &str) -> crate::AssociationConfig {
        let key = "0x000102030405060708090a0b0c0d0e0f10111213";
        let ends = format!("src 192.0.2.1 dst {} spi {spi}", dst(number));
        let text = format!("{ends} reqid {} mode tunnel aead aes-gcm {key} 128 {more}", number + 1);
        parse_association(&text).unwrap()
    }

    fn policy_text(number: u32, dir: &str) -> String {
        let (to, reqid) = (dst(number), number + 1);
        format!("src 0.0.0.0/0 dst {to}/32 dir {dir} tmpl src 192.0.2.1 dst {to} reqid {reqid} mode tunnel")
    }

    fn policy(number: u32, dir: &str) -> crate::Policy {
        parse_policy(&policy_text(number, dir)).unwrap()
    }

    /// The SPIs that a walk meets, in how many steps, and how many associations came.
    fn met(database: &Database, whose: Whose) -> (BTreeSet<u32>, usize, usize) {
        let reader = database.domain.register("test");
        let (mut all, mut place, mut steps, mut count) = (BTreeSet::new(), WalkPosition::default(), 0, 0);
        loop {
            let before = count;
            let next = database.walk(whose, place, &reader, |association| {
                all.insert(association.sa.spi);
                count += 1;
            });
            assert!(count - before < 8 * STEP, "a step is bounded");
            steps += 1;
            match next {
                Some(next) => place = next,
                None => return (all, steps, count),
            }
        }
    }

    fn tended(database: &Database) -> Vec<u32> {
        met(database, Whose::Tended).0.into_iter().collect()
    }

    #[test]
    fn few_of_many_are_met() {
        let database = Database::new(&Domain::default(), 1);
        let mut configured = Configured::default();
        for number in 0..MANY {
            let more = if number % 40_000 == 7 { "dummies 5" } else { "" };
            configured.add(association(number, 0x1000 + number, more)).unwrap();
            configured.add_policy(policy(number, "out")).unwrap();
        }
        database.follow(configured, 0).unwrap();
        let (all, steps, count) = met(&database, Whose::Tended);
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [0x1007, 0x1007 + 40_000, 0x1007 + 80_000]);
        assert_eq!((steps, count), (1, 3));
        let (all, steps, count) = met(&database, Whose::All);
        assert_eq!((all.len(), count), (MANY as usize, MANY as usize));
        assert!(steps > 100, "{steps}");
    }

    /// Compares with a search of everything after each change.
    #[test]
    fn those_that_policies_use_are_met() {
        let database = Database::new(&Domain::default(), 1);
        let add = |number, spi, more| drop(database.add(association(number, spi, more), true, 0).unwrap());
        add(1, 0x101, "dummies 5");
        assert_eq!(tended(&database), [], "no policy uses it");
        database.set_policy(policy(1, "fwd"), false).unwrap();
        assert_eq!(tended(&database), [], "packets do not leave by it");
        database.set_policy(policy(1, "out"), false).unwrap();
        assert_eq!(tended(&database), [0x101]);
        database.set_policy(policy(1, "out"), true).unwrap();
        add(2, 0x102, "encap espinudp 1 2 keepalive 9");
        database.set_policy(policy(2, "out"), false).unwrap();
        assert_eq!(tended(&database), [0x101, 0x102]);
        // A successor without dummies, and one with.
        add(1, 0x201, "");
        assert_eq!(tended(&database), [0x102]);
        add(1, 0x301, "dummies 9");
        assert_eq!(tended(&database), [0x102, 0x301]);
        database.remove(Id { dst: dst(1).into(), spi: 0x301 }).unwrap();
        database.remove(Id { dst: dst(1).into(), spi: 0x201 }).unwrap();
        assert_eq!(tended(&database), [0x101, 0x102], "the older one again");
        database.remove_policy(&parse_policy_key(&policy_text(2, "out")).unwrap()).unwrap();
        assert_eq!(tended(&database), [0x101]);
        // What a configuration brings, and what it leaves.
        let mut configured = Configured::default();
        configured.add(association(3, 0x103, "dummies 1")).unwrap();
        configured.add_policy(policy(3, "out")).unwrap();
        database.follow(configured, 0).unwrap();
        assert_eq!(tended(&database), [0x101, 0x103]);
        database.follow(Configured::default(), 0).unwrap();
        add(1, 0x401, "dummies 2");
        assert_eq!(tended(&database), [0x401]);
        database.flush();
        assert_eq!(tended(&database), []);
        add(1, 0x501, "dummies 2");
        assert_eq!(tended(&database), [0x501]);
        database.flush_policies();
        assert_eq!(tended(&database), []);
    }

    /// Many come one by one, and workers that stand still let the table wait.
    #[test]
    fn the_table_grows_and_waits() {
        let domain = Domain::new(sync::rcu::Limits { objects: 40, bytes: 1 << 30 });
        let database = Database::new(&domain, 1);
        for number in 0..2000 {
            database.add(association(number, 0x1000 + number, "dummies 5"), false, 0).unwrap();
            database.set_policy(policy(number, "out"), false).unwrap();
        }
        assert_eq!(tended(&database).len(), 2000);
        let worker = domain.register("stands still");
        let removed =
            (0..2000).take_while(|n| database.remove(Id { dst: dst(*n).into(), spi: 0x1000 + n }).is_ok());
        let removed = removed.count();
        assert!((1..40).contains(&removed), "{removed}");
        drop(worker);
        domain.reclaim();
        database.is_untidy.store(true, Ordering::Relaxed);
        database.tidy();
        assert_eq!(tended(&database).len(), 2000 - removed);
    }

    #[test]
    fn workers_do_not_wait_for_who_lists() {
        let database = Database::new(&Domain::default(), 1);
        database.add(association(1, 0x101, "dummies 5 limit time-hard 1"), false, 0).unwrap();
        database.set_policy(policy(1, "out"), false).unwrap();
        let writer = database.lock();
        assert_eq!(tended(&database), [0x101]);
        let later = 2_000_000_000;
        assert!(database.tick(later).is_some_and(|at| at > later), "it comes again");
        drop(writer);
        database.tick(later);
        assert_eq!(database.association_count(), 0);
    }

    #[test]
    fn many_that_end_at_once_end_in_steps() {
        let database = Database::new(&Domain::default(), 1);
        for number in 0..1000 {
            database.add(association(number, 0x1000, "limit time-hard 1"), false, 0).unwrap();
        }
        let now = 2_000_000_000;
        let ticks = (1..).take_while(|_| database.tick(now).is_some()).count();
        assert!((3..=8).contains(&ticks), "{ticks}");
        assert_eq!(database.association_count(), 0);
    }
}
