// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a port exchanges with its neighbours: Port Receive (17.23), Port Protocol Migration (17.24), Bridge Detection (17.25)
//! and Port Transmit (17.26).

use wire::stp::{self, Bpdu, Flags, Message};

use super::port::{MIGRATE_TIME, Migration, Receive};
use super::vectors::ticks;
use super::{Bridge, Output, Port, Role, State};

impl Bridge {
    /// Port Receive: a BPDU becomes the message that the other machines look at, one at a time.
    pub(super) fn receive_machine(&mut self, index: usize) -> bool {
        let port = &mut self.ports[index];
        let waiting = port.received.is_some() && !port.rcvd_msg;
        if !port.enabled() {
            if port.received.is_none() && port.edge_delay_while == MIGRATE_TIME {
                return false;
            }
            (port.received, port.rcvd_msg) = (None, false);
            (port.rcvd_rstp, port.rcvd_stp) = (false, false);
            port.edge_delay_while = MIGRATE_TIME;
            port.receive = Receive::Discard;
            return true;
        }
        if !waiting {
            return false;
        }
        // updtBPDUVersion (17.21.22).
        match port.received {
            Some(Bpdu::Rst(_)) => port.rcvd_rstp = true,
            _ => port.rcvd_stp = true,
        }
        (port.oper_edge, port.rcvd_msg) = (false, true);
        port.edge_delay_while = MIGRATE_TIME;
        port.receive = Receive::Receive;
        true
    }

    /// Port Protocol Migration: which protocol the port speaks, by what it hears.
    pub(super) fn migration(&mut self, index: usize) -> bool {
        let rapid = !self.config.force_stp;
        let port = &mut self.ports[index];
        let enabled = port.enabled();
        let next = match port.migration {
            Migration::CheckingRstp if port.mdelay_while != MIGRATE_TIME && !enabled => {
                Migration::CheckingRstp
            }
            Migration::CheckingRstp if port.mdelay_while == 0 => Migration::Sensing,
            Migration::SelectingStp if port.mdelay_while == 0 || !enabled || port.mcheck => {
                Migration::Sensing
            }
            Migration::Sensing if !enabled || port.mcheck || rapid && !port.send_rstp && port.rcvd_rstp => {
                Migration::CheckingRstp
            }
            Migration::Sensing if port.send_rstp && port.rcvd_stp => Migration::SelectingStp,
            _ => return false,
        };
        port.migration = next;
        match next {
            Migration::CheckingRstp => {
                (port.mcheck, port.send_rstp) = (false, rapid);
                port.mdelay_while = MIGRATE_TIME;
            }
            Migration::SelectingStp => {
                port.send_rstp = false;
                port.mdelay_while = MIGRATE_TIME;
            }
            Migration::Sensing => (port.rcvd_rstp, port.rcvd_stp) = (false, false),
        }
        true
    }

    /// Bridge Detection: whether there are bridges behind the port. EDGE and NOT_EDGE are `oper_edge` itself.
    pub(super) fn detection(&mut self, index: usize) -> bool {
        let port = &mut self.ports[index];
        let enabled = port.enabled();
        let next = if port.oper_edge {
            enabled || port.config.edge
        } else {
            let silent =
                port.edge_delay_while == 0 && port.config.auto_edge && port.send_rstp && port.proposing;
            !enabled && port.config.edge || silent
        };
        let moved = next != port.oper_edge;
        port.oper_edge = next;
        moved
    }

    /// Port Transmit: sends what is new, and at the latest every hello time what is known, but no more than TxHoldCount
    /// messages in a second.
    pub(super) fn transmit(&mut self, index: usize) -> bool {
        let hold_count = self.config.tx_hold_count;
        let port = &mut self.ports[index];
        if !port.enabled() {
            // TRANSMIT_INIT; later editions enter it so, and nothing sent by a port that is down would arrive.
            (port.new_info, port.tx_count) = (true, 0);
            return false;
        }
        if !port.selected || port.updt_info {
            return false;
        }
        if port.hello_when == 0 {
            // TRANSMIT_PERIODIC.
            port.new_info |= port.role == Role::Designated || port.role == Role::Root && port.tc_while != 0;
            port.hello_when = port.hello_time();
        }
        if !port.new_info || port.tx_count >= hold_count {
            return false;
        }
        let bpdu = match port.role {
            _ if port.send_rstp => Bpdu::Rst(message(port)),
            Role::Root => Bpdu::Tcn,
            Role::Designated => Bpdu::Config(message(port)),
            _ => return false,
        };
        port.new_info = false;
        port.tx_count += 1;
        port.hello_when = port.hello_time();
        if bpdu != Bpdu::Tcn {
            port.tc_ack = false;
        }
        self.outputs.push(Output::Send { port: port.number, bpdu });
        true
    }
}

/// What txRstp and txConfig (17.21.20, 17.21.19) send; a Configuration BPDU has no room for most flags.
fn message(port: &Port) -> Message {
    let (vector, times) = (&port.designated_priority, &port.designated_times);
    let role = match port.role {
        Role::Disabled => stp::Role::Unknown,
        Role::Root => stp::Role::Root,
        Role::Designated => stp::Role::Designated,
        Role::Alternate | Role::Backup => stp::Role::AlternateOrBackup,
    };
    Message {
        flags: Flags {
            topology_change: port.tc_while != 0,
            proposal: port.proposing,
            role,
            learning: port.state >= State::Learning,
            forwarding: port.state == State::Forwarding,
            agreement: port.agree,
            topology_change_ack: port.tc_ack && !port.send_rstp,
        },
        root: vector.root,
        root_path_cost: vector.cost,
        bridge: vector.bridge,
        port: vector.port,
        message_age: ticks(times.message_age),
        max_age: ticks(times.max_age),
        hello_time: ticks(times.hello),
        forward_delay: ticks(times.forward_delay),
    }
}
