// SPDX-License-Identifier: MIT OR Apache-2.0
//! Daemons that end and come again, and what is said of their routes meanwhile.
//!
//! # FRR's daemons behind a zebra that goes on
//!
//! zebra withdraws the routes of a daemon that has ended, at once or when the daemon is back and has not named them yet. Neither says that
//! they lead nowhere. So a withdrawal of FPM waits for [`HOLD`], and is then looked at again:
//! * while the daemon of its protocol is away, the route stays for the grace period that began with the daemon's end;
//! * for the grace period after its return, the route stays for [`SETTLE`].
//!
//! A route that is named again meanwhile has never been away.
//!
//! Where zebra itself has ended, daemons may end with it, and learn their routes again one by one. So the end of zebra's report says
//! nothing of routes whose daemon was away: those stay for the grace period that began with zebra's end.
//!
//! # BIRD
//!
//! The kernel keeps the routes of a BIRD that is killed. The next BIRD removes those that it has not learnt again: at once, or where its
//! neighbours help it to restart, later. OSPF with its usual timers may need 40 s to learn them. So a route of BIRD that goes shortly after
//! BIRD's return stays until the grace period that began with the return is over. What goes before, BIRD itself or somebody else has
//! removed on purpose, and that counts at once.

use super::*;

/// How long a route stays that goes shortly after its daemon has returned: the daemon names all its routes then.
pub const SETTLE: Duration = Duration::from_secs(10);

/// Whether a daemon is there, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    /// As far as anybody knows, it has never been away.
    #[default]
    Steady,
    Away(Duration),
    Back(Duration),
}

impl Rib {
    /// A daemon has ended, or is there again.
    pub(super) fn daemon(&mut self, daemon: Daemon, is_there: bool, now: Duration) {
        let presence = &mut self.daemons[daemon as usize];
        *presence = match (*presence, is_there) {
            (Presence::Steady | Presence::Back(_), false) => Presence::Away(now),
            (Presence::Away(_), true) => Presence::Back(now),
            (same, _) => same,
        };
    }

    /// Daemons that have ended and not come back.
    pub fn missing_daemons(&self) -> impl Iterator<Item = Daemon> {
        let is_away = |daemon: &Daemon| matches!(self.daemons[*daemon as usize], Presence::Away(_));
        Daemon::ALL.into_iter().filter(is_away)
    }

    /// A route is withdrawn: at once, or when it has had its time to return.
    pub(super) fn withdraw(&mut self, layer: Layer, key: DestinationKey, metric: Option<u32>, now: Duration) {
        if layer == Layer::Kernel && self.settles(&key, metric, now) {
            return;
        }
        if layer != Layer::Fpm {
            return self.change(key, now, |rib| rib.remove(layer, &key, metric));
        }
        let is_known = self.layers[layer as usize].first.get(&key).is_some();
        if is_known && !self.is_leaving(&key) {
            self.leaving.put(key, now + HOLD);
        }
    }

    /// Lets a route of BIRD in the kernel stay for a while, if BIRD has returned a short time ago.
    fn settles(&mut self, key: &DestinationKey, metric: Option<u32>, now: Duration) -> bool {
        let Presence::Back(since) = self.daemons[Daemon::Bird as usize] else { return false };
        let until = since + self.grace;
        if now >= until {
            return false;
        }
        let is_meant = |route: &Stored| {
            metric.is_none_or(|metric| metric == route.metric)
                && Daemon::of(route.protocol, &key.prefix) == Some(Daemon::Bird)
        };
        let routes = &mut self.layers[Layer::Kernel as usize];
        let Some(route) = routes.of(key).find(is_meant) else { return false };
        if !route.is_leaving {
            routes.replace(key, Stored { is_leaving: true, ..route });
            self.settling.put(*key, until);
        }
        true
    }

    /// A route of the kernel is named again, or goes for another reason: it settles no longer, if no other one does.
    pub(super) fn settles_no_longer(&mut self, key: &DestinationKey) {
        if self.settling.is_empty() {
            return;
        }
        if !self.layers[Layer::Kernel as usize].of(key).any(|route| route.is_leaving) {
            self.settling.remove(key);
        }
    }

    /// Removes the kernel's routes for a destination that have had their time.
    fn remove_leaving(&mut self, key: &DestinationKey) {
        let leaving = self.layers[Layer::Kernel as usize].of(key).filter(|route| route.is_leaving);
        for metric in leaving.map(|route| route.metric).collect::<Vec<_>>() {
            self.remove(Layer::Kernel, key, Some(metric));
        }
    }

    /// FPM names a route again, or it goes for another reason.
    pub(super) fn leaves_no_longer(&mut self, key: &DestinationKey) {
        self.leaving.remove(key);
        self.lingering.remove(key);
    }

    pub(super) fn leave_due(&mut self, now: Duration) {
        for key in self.leaving.take_due(now) {
            match self.lingers_until(&key, now).filter(|until| *until > now) {
                Some(until) => self.lingering.put(key, until),
                None => self.leave(key, now),
            }
        }
        for key in self.lingering.take_due(now) {
            self.leave(key, now);
        }
        for key in self.settling.take_due(now) {
            self.change(key, now.saturating_sub(HOLD), |rib| rib.remove_leaving(&key));
        }
    }

    /// The route has had its time.
    fn leave(&mut self, key: DestinationKey, now: Duration) {
        self.change(key, now.saturating_sub(HOLD), |rib| rib.remove(Layer::Fpm, &key, None));
    }

    /// How long a withdrawn route stays because of its daemon.
    fn lingers_until(&self, key: &DestinationKey, now: Duration) -> Option<Duration> {
        let route = self.layers[Layer::Fpm as usize].first.get(key)?;
        match self.presence(route.protocol, key) {
            Presence::Steady => None,
            Presence::Away(since) => Some(since + self.grace),
            Presence::Back(since) => (now < since + self.grace).then_some(now + SETTLE.min(self.grace)),
        }
    }

    /// Whether the daemon of a route is there; one that nobody knows of is.
    fn presence(&self, protocol: u8, key: &DestinationKey) -> Presence {
        Daemon::of(protocol, &key.prefix).map_or(Presence::Steady, |daemon| self.daemons[daemon as usize])
    }

    /// Whether the daemon of a route of FPM is away, has been away within the grace period, or is still naming what it had named before.
    pub(super) fn was_away(&self, route: &Stored, key: &DestinationKey, now: Duration) -> bool {
        match self.presence(route.protocol, key) {
            Presence::Steady => false,
            Presence::Away(_) => true,
            Presence::Back(since) => now < self.extended(since + self.grace, self.fpm),
        }
    }

    /// Whether FPM has withdrawn the route, and it stays for a while.
    pub(super) fn is_leaving(&self, key: &DestinationKey) -> bool {
        self.leaving.contains(key) || self.lingering.contains(key)
    }
}
