// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes with a second way.
//!
//! Of the kernel's routes for one destination, the one with the lowest metric counts. The next one is its backup: the user plane knows its
//! hops, too, and takes to them by itself at the moment when all hops of the first have lost their link or their neighbour. So the repair
//! takes as long for a million routes as for one, and waits for no daemon.
//!
//! Of what FPM reports there is one route for each destination, so it has no backups.

use super::*;

impl Rib {
    /// The object that the user plane is to have for a destination.
    pub(super) fn way(&self, key: &DestinationKey) -> Option<ObjectId> {
        let backed = if self.backed.is_empty() { None } else { self.backed.get(key).copied() };
        backed.or_else(|| self.best(key).map(|(_, route)| route.object))
    }

    /// The objects of the route that counts and of its backup.
    pub(super) fn ways(&self, key: &DestinationKey) -> Option<(ObjectId, Option<ObjectId>)> {
        let (layer, best) = self.best(key)?;
        Some((best.object, self.backup(key, layer, &best)))
    }

    fn backup(&self, key: &DestinationKey, layer: Layer, best: &Stored) -> Option<ObjectId> {
        let routes = &self.layers[Layer::Kernel as usize];
        if layer != Layer::Kernel || routes.others.get(key).is_none() {
            return None;
        }
        let further = routes.of(key).filter(|route| route.metric > best.metric && !self.is_copy(key, route));
        further.min_by_key(|route| route.metric).map(|route| route.object)
    }

    /// Notes which object a destination has, where it has a backup. Returns the object that the user plane is to have.
    pub(super) fn back(
        &mut self,
        key: DestinationKey,
        ways: Option<(ObjectId, Option<ObjectId>)>,
    ) -> Option<ObjectId> {
        let backed = match ways {
            Some((first, Some(second))) => self.objects.backed(first, second),
            _ => None,
        };
        let former = match backed {
            Some(id) => self.backed.insert(key, id),
            None if self.backed.is_empty() => None,
            None => self.backed.remove(&key),
        };
        former.into_iter().for_each(|id| self.objects.release(id));
        backed.or(ways.map(|(first, _)| first))
    }

    /// Sends the way that counts for a destination to the user plane, even if it has it.
    pub(super) fn put_best(&mut self, key: DestinationKey) {
        let ways = self.ways(&key);
        if let Some(object) = self.back(key, ways) {
            self.put_route(key, object);
        }
    }
}
