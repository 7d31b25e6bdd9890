// SPDX-License-Identifier: MIT OR Apache-2.0
//! What should be where: the rows that a user plane's tables should hold, and routes of which FPM and the kernel report different things.

use feed::audit::{Part, Question, Row, SCANNED_MAX, digest_of};

use super::*;

/// Entries of a part that are asked for at once.
const STEP: usize = 2048;
/// The same for objects.
const OBJECTS: usize = 256;

/// What a range of the user plane's tables should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The last address or object of the range.
    pub to: u64,
    /// What should be there.
    pub rows: Vec<Row>,
    /// Destinations of which nobody can say: a withdrawal is held, or the object is not known yet.
    pub unsure: HashSet<DestinationKey>,
    /// There is more than can be asked for at once.
    pub has_more: bool,
}

/// Where FPM and the kernel differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispute {
    /// FPM has a route that the kernel lacks.
    OnlyFpm(Shown),
    /// The kernel has a route of FRR that FPM lacks.
    OnlyKernel(Shown),
    /// Both have one, with different next hops: FPM's and the kernel's.
    Differ(Shown, Shown),
}

/// The address of a destination as a part counts.
fn unit(key: &DestinationKey) -> (Part, u64) {
    match key.prefix {
        Destination::V4(prefix) => (Part::Four, prefix.addr().to_bits().into()),
        Destination::V6(prefix) => (Part::Six, (prefix.addr().to_bits() >> 64) as u64),
        // They belong to no part.
        Destination::Label(label) => (Part::Objects, label.into()),
    }
}

/// The last key before those whose addresses begin at `from`.
fn before(part: Part, from: u64) -> Option<DestinationKey> {
    let four = |bits: u32| wire::Prefix4::new(bits.into(), 32).map(Destination::V4);
    let six = |bits: u128| wire::Prefix6::new(bits.into(), 128).map(Destination::V6);
    let prefix = match part {
        Part::Four => four(u32::try_from(from.checked_sub(1)?).unwrap_or(u32::MAX)),
        Part::Six => match (u128::from(from) << 64).checked_sub(1) {
            Some(bits) => six(bits),
            None => four(u32::MAX),
        },
        Part::Objects | Part::Trees4 | Part::Trees6 => None,
    };
    prefix.map(|prefix| DestinationKey { table: u8::MAX, prefix })
}

/// The last number of a part.
fn last(part: Part) -> u64 {
    match part {
        Part::Four | Part::Objects | Part::Trees4 => u32::MAX.into(),
        Part::Six | Part::Trees6 => u64::MAX,
    }
}

impl Rib {
    /// Puts a question to the user plane, and says what the answer should be. Without `to`, the range has a step's entries.
    pub fn ask(&mut self, token: u32, part: Part, from: u64, to: Option<u64>, lists: bool) -> Expected {
        let expected = match part {
            Part::Objects => self.expected_objects(from, to),
            Part::Four | Part::Six => self.expected_routes(part, from, to),
            Part::Trees4 | Part::Trees6 => self.expected_trees(part, from, to),
        };
        let question = Question { token, part, from, to: expected.to, lists };
        self.outbox.put_alone(&Update::Audit(question));
        expected
    }

    /// Whether the user plane is being given everything.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    fn expected_objects(&self, from: u64, to: Option<u64>) -> Expected {
        let mut ids: Vec<ObjectId> = self.sent.keys().copied().filter(|id| u64::from(*id) >= from).collect();
        ids.sort_unstable();
        let to = to.unwrap_or_else(|| ids.get(OBJECTS).map_or(last(Part::Objects), |id| u64::from(*id) - 1));
        let ids = ids.into_iter().take_while(|id| u64::from(*id) <= to).take(SCANNED_MAX);
        let row = |id| Row::Object { id, digest: digest_of(&self.sent[&id]), is_true: true };
        Expected { to, rows: ids.map(row).collect(), unsure: HashSet::new(), has_more: false }
    }

    fn expected_routes(&self, part: Part, from: u64, to: Option<u64>) -> Expected {
        let most = if to.is_some() { SCANNED_MAX } else { STEP };
        let mut keys = self.keys_after(before(part, from), most);
        let is_cut = keys.len() == most;
        let within = |key: &DestinationKey| unit(key).0 == part && to.is_none_or(|to| unit(key).1 <= to);
        let all = keys.len();
        keys.truncate(keys.iter().position(|key| !within(key)).unwrap_or(all));
        let mut has_more = is_cut && keys.len() == all;
        let to = match (to, keys.last().map(unit)) {
            (Some(to), _) => to,
            (None, Some((_, end))) if has_more => {
                // Prefixes of the last address may be missing.
                let first = unit(&keys[0]).1;
                if first < end {
                    keys.retain(|key| unit(key).1 < end);
                    has_more = false;
                    end - 1
                } else {
                    end
                }
            }
            (None, _) => last(part),
        };
        let mut expected = Expected { to, rows: Vec::new(), unsure: HashSet::new(), has_more };
        for key in keys {
            let best = self.way(&key);
            let waits = |id| self.waiting.get(&id).is_some_and(|keys| keys.contains(&key));
            if self.held.contains(&key) || best.is_some_and(waits) {
                expected.unsure.insert(key);
            } else if let Some(id) = best {
                expected.rows.push(Row::Route { table: key.table, prefix: key.prefix, id });
            }
        }
        // Held withdrawals have no route any more.
        let is_in = |key: &DestinationKey| unit(key).0 == part && unit(key).1 <= to;
        expected.unsure.extend(self.held.after(before(part, from)).take_while(is_in));
        expected
    }

    /// The route that counts for a destination.
    pub fn show_best(&mut self, key: DestinationKey) -> Option<Shown> {
        let (layer, route) = self.best(&key)?;
        Some(self.show_one(key, layer, route, true))
    }

    /// The meaning of an object that was last sent to the user plane.
    #[must_use]
    pub fn sent_object(&self, id: u32) -> Option<&feed::Object> {
        self.sent.get(&id)
    }

    /// Whether both feeds report routes, so that they can be compared.
    #[must_use]
    pub fn has_both_feeds(&self) -> bool {
        let reports = |feed: &FeedState| feed.is_up && !feed.is_replaying;
        self.has_kernel_routes && reports(&self.fpm) && reports(&self.kernel)
    }

    /// Destinations behind `after` of which FPM and the kernel report different things, and where to go on.
    pub fn disputed(
        &mut self,
        after: Option<DestinationKey>,
        most: usize,
    ) -> (Vec<DestinationKey>, Option<DestinationKey>) {
        let mut keys = self.keys_after(after, most);
        let next = keys.last().copied().filter(|_| keys.len() == most);
        keys.retain(|key| self.dispute(*key).is_some());
        (keys, next)
    }

    /// What FPM and the kernel report differently of a destination. Only FRR's own routes are compared.
    pub fn dispute(&mut self, key: DestinationKey) -> Option<Dispute> {
        if self.held.contains(&key) || self.leaving.contains(&key) {
            return None;
        }
        let is_frrs = |route: &Stored| FRRS.contains(&route.protocol);
        let fpm = self.layers[Layer::Fpm as usize].of(&key).find(is_frrs);
        let copies: Vec<Stored> = self.layers[Layer::Kernel as usize].of(&key).filter(is_frrs).collect();
        let show = |rib: &mut Rib, layer, route| rib.show_one(key, layer, route, false);
        match (fpm, copies.first().copied()) {
            (None, None) => None,
            (None, Some(_)) if !self.is_replayed(key.table) => None,
            (Some(fpm), None) => Some(Dispute::OnlyFpm(show(self, Layer::Fpm, fpm))),
            (None, Some(copy)) => Some(Dispute::OnlyKernel(show(self, Layer::Kernel, copy))),
            (Some(fpm), Some(first)) => {
                let wanted = self.comparable(fpm.object);
                let agree = copies.iter().any(|copy| self.comparable(copy.object) == wanted);
                (!agree)
                    .then(|| Dispute::Differ(show(self, Layer::Fpm, fpm), show(self, Layer::Kernel, first)))
            }
        }
    }

    /// What an object means, with its hops in an order.
    fn comparable(&mut self, id: ObjectId) -> Option<feed::Object> {
        let mut meaning = self.objects.meaning(id, &mut self.links);
        if let Some(feed::Object::Forward(hops)) = &mut meaning {
            hops.sort_by_key(|hop| (hop.link, hop.gateway, hop.weight));
        }
        meaning
    }
}
