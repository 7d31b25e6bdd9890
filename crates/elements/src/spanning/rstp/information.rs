// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port Information (17.27): what the port's network knows of the root, by messages or by this bridge, and how long it counts.

use wire::stp::{self, Bpdu, Flags, Message};

use super::port::{InfoIs, Information};
use super::{Bridge, Port, Times, Vector};

/// What a message is to a port (rcvInfo, 17.21.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    InferiorRootAlternate,
    Other,
}

impl Bridge {
    pub(super) fn information(&mut self, index: usize) -> bool {
        let port = &mut self.ports[index];
        if !port.enabled() && port.info_is != InfoIs::Disabled {
            port.disable_information();
            return true;
        }
        match port.information {
            Information::Disabled if port.rcvd_msg => port.disable_information(),
            Information::Disabled if port.enabled() => {
                port.information = Information::Aged;
                port.age();
            }
            Information::Aged | Information::Current if port.selected && port.updt_info => port.update(),
            Information::Current if port.info_is == InfoIs::Received && port.is_stale() => {
                port.information = Information::Aged;
                port.age();
            }
            Information::Current if port.rcvd_msg && !port.updt_info => port.look_at_message(),
            _ => return false,
        }
        true
    }
}

impl Port {
    fn is_stale(&self) -> bool {
        self.rcvd_info_while == 0 && !self.updt_info && !self.rcvd_msg
    }

    /// DISABLED.
    fn disable_information(&mut self) {
        self.information = Information::Disabled;
        (self.rcvd_msg, self.received) = (false, None);
        (self.proposing, self.proposed, self.agree, self.agreed) = (false, false, false, false);
        self.disputed = false;
        self.rcvd_info_while = 0;
        self.info_is = InfoIs::Disabled;
        (self.reselect, self.selected) = (true, false);
    }

    /// AGED.
    fn age(&mut self) {
        self.info_is = InfoIs::Aged;
        (self.reselect, self.selected) = (true, false);
    }

    /// UPDATE: the network is to hear what this bridge knows.
    ///
    /// The standard lets an agreement to worse information stand for better. We do not: while two bridges tell each other of a root that is
    /// gone ("count to infinity"), the neighbour may have agreed to another tree than the one it is in now, and rings close for
    /// seconds (K. Elmeleegy, A. L. Cox, T. S. E. Ng, "On count-to-infinity induced forwarding loops in Ethernet
    /// networks", INFOCOM 2006). The price is a proposal more where the way to the root changes.
    fn update(&mut self) {
        (self.proposing, self.proposed) = (false, false);
        self.agreed &= self.info_is == InfoIs::Mine && self.designated_priority == self.port_priority;
        self.synced &= self.agreed;
        self.port_priority = self.designated_priority;
        self.port_times = self.designated_times;
        self.updt_info = false;
        self.info_is = InfoIs::Mine;
        self.new_info = true;
        self.information = Information::Current;
    }

    /// RECEIVE, and the state that follows it.
    fn look_at_message(&mut self) {
        self.rcvd_msg = false;
        let Some(bpdu) = self.received.take() else { return };
        let (message, rapid) = match bpdu {
            Bpdu::Tcn => {
                self.rcvd_tcn = true;
                return;
            }
            Bpdu::Config(message) => (message, false),
            Bpdu::Rst(message) => (message, true),
        };
        // Without a role, the message is to be read as if it were a Configuration BPDU (9.2.9).
        let rapid = rapid && message.flags.role != stp::Role::Unknown;
        let (vector, times) = (Vector::of(&message), Times::of(&message));
        match self.received_info(&message.flags, rapid, &vector, &times) {
            Received::SuperiorDesignated => {
                (self.agreed, self.proposing) = (false, false);
                self.record_proposal(&message.flags, rapid);
                self.set_tc_flags(&message.flags, rapid);
                // betterorsameInfo(Received) (17.21.1).
                self.agree &= self.info_is == InfoIs::Received && vector <= self.port_priority;
                self.port_priority = vector;
                self.port_times = times;
                self.update_info_while(&message);
                self.info_is = InfoIs::Received;
                (self.reselect, self.selected) = (true, false);
            }
            Received::RepeatedDesignated => {
                self.record_proposal(&message.flags, rapid);
                self.set_tc_flags(&message.flags, rapid);
                self.update_info_while(&message);
            }
            Received::InferiorDesignated => {
                // recordDispute (17.21.10): the neighbour learns, though it should have heard that we are nearer to the root. It
                // does not hear us, so what it was asked it did not agree to.
                if rapid && message.flags.learning {
                    (self.disputed, self.agreed) = (true, false);
                }
            }
            Received::InferiorRootAlternate => {
                // recordAgreement (17.21.9).
                self.agreed = self.config.point_to_point && message.flags.agreement;
                self.proposing &= !self.agreed;
                self.set_tc_flags(&message.flags, rapid);
            }
            Received::Other => {}
        }
    }

    /// rcvInfo.
    fn received_info(&self, flags: &Flags, rapid: bool, vector: &Vector, times: &Times) -> Received {
        if rapid && flags.role != stp::Role::Designated {
            let inferior = *vector >= self.port_priority;
            return if inferior { Received::InferiorRootAlternate } else { Received::Other };
        }
        if *vector == self.port_priority {
            return match self.info_is {
                _ if *times != self.port_times => Received::SuperiorDesignated,
                InfoIs::Received => Received::RepeatedDesignated,
                _ => Received::Other,
            };
        }
        if *vector < self.port_priority || vector.same_sender(&self.port_priority) {
            Received::SuperiorDesignated
        } else {
            Received::InferiorDesignated
        }
    }

    /// recordProposal (17.21.11).
    fn record_proposal(&mut self, flags: &Flags, rapid: bool) {
        self.proposed |= rapid && flags.proposal;
    }

    /// setTcFlags (17.21.17).
    fn set_tc_flags(&mut self, flags: &Flags, rapid: bool) {
        self.rcvd_tc |= flags.topology_change;
        self.rcvd_tc_ack |= !rapid && flags.topology_change_ack;
    }

    /// updtRcvdInfoWhile (17.21.23): three hellos may go missing, unless the message is too old already.
    fn update_info_while(&mut self, message: &Message) {
        let age = u32::from(message.message_age.round_secs()) + 1;
        let young = age <= u32::from(self.port_times.max_age);
        self.rcvd_info_while = if young { 3 * self.port_times.hello } else { 0 };
    }
}
