// SPDX-License-Identifier: MIT OR Apache-2.0
//! Topology Change (17.31): a port that begins to forward moves stations, so all bridges forget what they learned behind
//! their other ports.

use super::port::Topology;
use super::{Bridge, Output, Role};

impl Bridge {
    pub(super) fn topology_change(&mut self, index: usize) -> bool {
        self.flush(index);
        let port = &mut self.ports[index];
        let heard = port.rcvd_tc || port.rcvd_tcn || port.rcvd_tc_ack || port.tc_prop;
        let active = port.role.is_active();
        match port.topology {
            Topology::Inactive if port.learn && !port.fdb_flush => {
                port.topology = Topology::Learning;
                self.forget_news(index);
            }
            Topology::Learning if active && port.forward && !port.oper_edge => {
                // DETECTED.
                port.topology = Topology::Active;
                port.new_info = true;
                self.new_tc_while(index);
                self.propagate(index);
            }
            Topology::Learning if heard => self.forget_news(index),
            Topology::Learning if !active && !port.learn && port.state == super::State::Discarding => {
                // INACTIVE.
                port.topology = Topology::Inactive;
                (port.fdb_flush, port.tc_ack) = (true, false);
                port.tc_while = 0;
            }
            Topology::Active if !active || port.oper_edge => {
                port.topology = Topology::Learning;
                self.forget_news(index);
            }
            Topology::Active if port.rcvd_tcn => {
                // NOTIFIED_TCN.
                self.new_tc_while(index);
                self.notified(index);
            }
            Topology::Active if port.rcvd_tc => self.notified(index),
            Topology::Active if port.tc_prop => {
                // PROPAGATING.
                (port.fdb_flush, port.tc_prop) = (true, false);
                self.new_tc_while(index);
            }
            Topology::Active if port.rcvd_tc_ack => {
                // ACKNOWLEDGED.
                port.tc_while = 0;
                port.rcvd_tc_ack = false;
            }
            _ => return false,
        }
        true
    }

    /// Has the filtering database do what `fdb_flush` asks for (17.19.7).
    fn flush(&mut self, index: usize) {
        let port = &mut self.ports[index];
        if !std::mem::take(&mut port.fdb_flush) {
            return;
        }
        if self.config.force_stp {
            self.quick_ageing = self.root_times.forward_delay;
            self.outputs.push(Output::Ageing(Some(self.quick_ageing)));
        } else {
            self.outputs.push(Output::Flush { port: port.number });
        }
    }

    /// LEARNING: what was heard before the port forwards concerns nobody behind it.
    fn forget_news(&mut self, index: usize) {
        let port = &mut self.ports[index];
        (port.rcvd_tc, port.rcvd_tcn, port.rcvd_tc_ack, port.tc_prop) = (false, false, false, false);
    }

    /// NOTIFIED_TC.
    fn notified(&mut self, index: usize) {
        let port = &mut self.ports[index];
        (port.rcvd_tcn, port.rcvd_tc) = (false, false);
        port.tc_ack |= port.role == Role::Designated;
        self.propagate(index);
    }

    /// newTcWhile (17.21.7).
    fn new_tc_while(&mut self, index: usize) {
        let long = self.root_times.max_age + self.root_times.forward_delay;
        let port = &mut self.ports[index];
        if port.tc_while != 0 {
            return;
        }
        if port.send_rstp {
            port.tc_while = port.hello_time() + 1;
            port.new_info = true;
        } else {
            port.tc_while = long;
        }
    }

    /// setTcPropTree (17.21.18).
    fn propagate(&mut self, index: usize) {
        self.counts.topology_changes += 1;
        self.since_change = 0;
        for (other, port) in self.ports.iter_mut().enumerate() {
            port.tc_prop |= other != index;
        }
    }
}
