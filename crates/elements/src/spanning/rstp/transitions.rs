// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port Role Transitions (17.29) and Port State Transition (17.30): from the role that was selected to what the port may do,
//! by asking neighbours or by waiting.

use super::{Bridge, Output, Port, Role, State};

impl Bridge {
    /// Port Role Transitions.
    pub(super) fn role_transitions(&mut self, index: usize) -> bool {
        let port = &mut self.ports[index];
        if !port.selected || port.updt_info {
            return false;
        }
        if port.role != port.selected_role {
            port.enter_role();
            return true;
        }
        match port.role {
            Role::Disabled => port.disabled_transitions(),
            Role::Designated => port.designated_transitions(),
            Role::Root => self.root_transitions(index),
            Role::Alternate | Role::Backup => self.alternate_transitions(index),
        }
    }

    /// allSynced (17.20.3). A port whose `synced` is about to be taken back by UPDATE must not count; later editions
    /// (IEEE 802.1Q) say so.
    fn all_synced(&self) -> bool {
        let synced = |p: &Port| {
            p.selected && !p.updt_info && p.role == p.selected_role && (p.synced || p.role == Role::Root)
        };
        self.ports.iter().all(synced)
    }

    /// reRooted (17.20.10): no other port was root port lately.
    fn re_rooted(&self, index: usize) -> bool {
        self.ports.iter().enumerate().all(|(other, port)| other == index || port.rr_while == 0)
    }

    /// setSyncTree (17.21.14).
    fn set_sync(&mut self) {
        self.ports.iter_mut().for_each(|port| port.sync = true);
    }

    fn root_transitions(&mut self, index: usize) -> bool {
        let (all_synced, re_rooted) = (self.all_synced(), self.re_rooted(index));
        let rapid = !self.config.force_stp;
        let port = &mut self.ports[index];
        let may_open = port.fd_while == 0 || re_rooted && port.rb_while == 0 && rapid;
        if port.proposed && !port.agree {
            // ROOT_PROPOSED.
            port.proposed = false;
            self.set_sync();
        } else if all_synced && !port.agree || port.proposed && port.agree {
            // ROOT_AGREED.
            (port.proposed, port.sync) = (false, false);
            (port.agree, port.new_info) = (true, true);
        } else if !port.forward && !port.re_root {
            // REROOT: setReRootTree (17.21.15).
            self.ports.iter_mut().for_each(|port| port.re_root = true);
        } else if may_open && !port.learn {
            // ROOT_LEARN.
            port.fd_while = port.forward_delay();
            port.learn = true;
        } else if may_open && !port.forward {
            // ROOT_FORWARD.
            port.fd_while = 0;
            port.forward = true;
        } else if port.re_root && port.forward {
            // REROOTED.
            port.re_root = false;
        } else if port.rr_while != port.fwd_delay() {
            port.rr_while = port.fwd_delay();
        } else {
            return false;
        }
        true
    }

    fn alternate_transitions(&mut self, index: usize) -> bool {
        let all_synced = self.all_synced();
        let port = &mut self.ports[index];
        if !port.settled {
            // BLOCK_PORT until the port discards.
            if port.state != State::Discarding {
                return false;
            }
            port.settled = true;
            port.alternate();
        } else if port.proposed && !port.agree {
            // ALTERNATE_PROPOSED.
            port.proposed = false;
            self.set_sync();
        } else if all_synced && !port.agree || port.proposed && port.agree {
            // ALTERNATE_AGREED.
            port.proposed = false;
            (port.agree, port.new_info) = (true, true);
        } else if port.fd_while != port.forward_delay() || port.sync || port.re_root || !port.synced {
            port.alternate();
        } else if port.role == Role::Backup && port.rb_while != 2 * port.hello_time() {
            // BACKUP_PORT.
            port.rb_while = 2 * port.hello_time();
        } else {
            return false;
        }
        true
    }

    /// Port State Transition. What it decides counts at once: the output stands before any message sent later.
    pub(super) fn state_transition(&mut self, index: usize) -> bool {
        let port = &mut self.ports[index];
        let next = match port.state {
            State::Discarding if port.learn => State::Learning,
            State::Learning if !port.learn => State::Discarding,
            State::Learning if port.forward => State::Forwarding,
            State::Forwarding if !port.forward => State::Discarding,
            _ => return false,
        };
        port.state = next;
        self.outputs.push(Output::State { port: port.number, state: next });
        true
    }
}

impl Port {
    /// DISABLE_PORT, ROOT_PORT, DESIGNATED_PORT or BLOCK_PORT.
    fn enter_role(&mut self) {
        self.role = self.selected_role;
        match self.role {
            Role::Designated => {}
            Role::Root => self.rr_while = self.fwd_delay(),
            Role::Disabled | Role::Alternate | Role::Backup => {
                (self.learn, self.forward) = (false, false);
                self.settled = false;
            }
        }
    }

    fn disabled_transitions(&mut self) -> bool {
        let at_rest = self.fd_while == self.max_age() && !self.sync && !self.re_root && self.synced;
        if self.state != State::Discarding || self.settled && at_rest {
            return false;
        }
        // DISABLED_PORT.
        self.settled = true;
        self.fd_while = self.max_age();
        (self.synced, self.rr_while) = (true, 0);
        (self.sync, self.re_root) = (false, false);
        true
    }

    /// ALTERNATE_PORT.
    fn alternate(&mut self) {
        self.fd_while = self.forward_delay();
        (self.synced, self.rr_while) = (true, 0);
        (self.sync, self.re_root) = (false, false);
    }

    fn designated_transitions(&mut self) -> bool {
        let discards = self.state == State::Discarding;
        let retired = self.rr_while == 0 || !self.re_root;
        let may_open = (self.fd_while == 0 || self.agreed || self.oper_edge) && retired && !self.sync;
        let must_close = self.sync && !self.synced || self.re_root && self.rr_while != 0 || self.disputed;
        if !self.forward && !self.agreed && !self.proposing && !self.oper_edge {
            // DESIGNATED_PROPOSE.
            (self.proposing, self.new_info) = (true, true);
            self.edge_delay_while = self.edge_delay();
        } else if !self.synced && (discards || self.agreed || self.oper_edge) || self.sync && self.synced {
            // DESIGNATED_SYNCED.
            self.rr_while = 0;
            (self.synced, self.sync) = (true, false);
        } else if self.rr_while == 0 && self.re_root {
            // DESIGNATED_RETIRED.
            self.re_root = false;
        } else if must_close && !self.oper_edge && (self.learn || self.forward) {
            // DESIGNATED_DISCARD.
            (self.learn, self.forward, self.disputed) = (false, false, false);
            self.fd_while = self.forward_delay();
        } else if may_open && !self.learn {
            // DESIGNATED_LEARN.
            self.learn = true;
            self.fd_while = self.forward_delay();
        } else if may_open && !self.forward {
            // DESIGNATED_FORWARD.
            self.forward = true;
            self.fd_while = 0;
            self.agreed = self.send_rstp;
        } else {
            return false;
        }
        true
    }
}
