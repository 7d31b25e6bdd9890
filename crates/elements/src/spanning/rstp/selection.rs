// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port Role Selection (17.28): from all that the ports have heard, the root, the way to it, and each port's role.

use super::port::InfoIs;
use super::{Bridge, Role, Times, Vector};

impl Bridge {
    /// ROLE_SELECTION, whenever a port's information has changed.
    pub(super) fn selection(&mut self) -> bool {
        if self.ports.iter().all(|port| !port.reselect) {
            return false;
        }
        // clearReselectTree, updtRolesTree, setSelectedTree (17.21.2, 17.21.25, 17.21.16).
        self.ports.iter_mut().for_each(|port| port.reselect = false);
        self.update_roles();
        self.ports.iter_mut().for_each(|port| port.selected = true);
        true
    }

    /// updtRolesTree.
    pub(super) fn update_roles(&mut self) {
        let id = self.id();
        let own = Vector { root: id, cost: 0, bridge: id, port: 0 };
        // Root path priority vectors: what was heard, made dearer by the port's cost. Of equal ones the lesser own port wins.
        let best = self.ports.iter().filter(|port| port.info_is == InfoIs::Received).filter_map(|port| {
            let heard = &port.port_priority;
            let cost = heard.cost.saturating_add(port.config.path_cost);
            let path = Vector { cost, ..*heard };
            (heard.bridge.address != id.address && path < own).then_some((path, port.id(), port.port_times))
        });
        let best = best.min_by_key(|(path, port, _)| (*path, *port));
        let before = (self.root.root, self.root_port);
        match best {
            Some((path, port, times)) => {
                (self.root, self.root_port) = (path, port);
                self.root_times = Times { message_age: times.message_age + 1, ..times };
            }
            None => {
                (self.root, self.root_port) = (own, 0);
                self.root_times = Times {
                    message_age: 0,
                    max_age: self.config.max_age,
                    hello: self.config.hello,
                    forward_delay: self.config.forward_delay,
                };
            }
        }
        self.counts.root_changes += u64::from(before != (self.root.root, self.root_port));
        for index in 0..self.ports.len() {
            self.select_role(index);
        }
    }

    fn select_role(&mut self, index: usize) {
        let id = self.id();
        let port = &mut self.ports[index];
        port.designated_priority =
            Vector { root: self.root.root, cost: self.root.cost, bridge: id, port: port.id() };
        port.designated_times = self.root_times.with_hello(self.config.hello);
        let better = port.designated_priority < port.port_priority;
        let differs =
            (port.port_priority, port.port_times) != (port.designated_priority, port.designated_times);
        (port.selected_role, port.updt_info) = match port.info_is {
            InfoIs::Disabled => (Role::Disabled, port.updt_info),
            InfoIs::Aged => (Role::Designated, true),
            InfoIs::Mine => (Role::Designated, differs),
            InfoIs::Received if port.id() == self.root_port => (Role::Root, false),
            InfoIs::Received if better => (Role::Designated, true),
            InfoIs::Received if port.port_priority.bridge.address == id.address => (Role::Backup, false),
            InfoIs::Received => (Role::Alternate, false),
        };
    }
}
