// SPDX-License-Identifier: MIT OR Apache-2.0
//! A port: the variables of clause 17.19, the timers of 17.17, and where each of its state machines is.

use wire::stp::{Bpdu, BridgeId};

use super::{BridgeConfig, State, Times, Vector};

/// MigrateTime (table 17-1): how long a port speaks what it has chosen to speak before it listens for the other.
pub(super) const MIGRATE_TIME: u16 = 3;

/// What a port is to the tree (17.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// It is down or off.
    #[default]
    Disabled,
    /// The way to the root.
    Root,
    /// The way to the root for those on its network.
    Designated,
    /// A worse way to the root.
    Alternate,
    /// Another port of this bridge is designated on the same network.
    Backup,
}

impl Role {
    /// The standard's name.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Disabled => "disabled",
            Role::Root => "root",
            Role::Designated => "designated",
            Role::Alternate => "alternate",
            Role::Backup => "backup",
        }
    }

    pub(super) const fn is_active(self) -> bool {
        matches!(self, Role::Root | Role::Designated)
    }
}

/// What is decided for a port (17.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Priority: multiples of 16. The upper half of the port's identifier.
    pub priority: u8,
    /// What it costs to go by this port (17.14, table 17-3).
    pub path_cost: u32,
    /// AdminEdge: there are no bridges behind the port.
    pub edge: bool,
    /// AutoEdge: the port takes itself for one behind which there are no bridges while it hears none.
    pub auto_edge: bool,
    /// operPointToPointMAC: there is at most one bridge behind the port, so it may agree for all.
    pub point_to_point: bool,
    /// Switch the port off when it hears a BPDU.
    pub guard: bool,
}

impl Default for PortConfig {
    fn default() -> PortConfig {
        PortConfig {
            priority: 128,
            path_cost: 20_000,
            edge: false,
            auto_edge: true,
            point_to_point: true,
            guard: false,
        }
    }
}

/// Whose information a port has (infoIs, 17.19.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InfoIs {
    Disabled,
    Aged,
    Mine,
    Received,
}

/// Port Receive (17.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    Discard,
    Receive,
}

/// Port Protocol Migration (17.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Migration {
    CheckingRstp,
    SelectingStp,
    Sensing,
}

/// Port Information (17.27). UPDATE and those after RECEIVE are actions on the way to CURRENT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Information {
    Disabled,
    Aged,
    Current,
}

/// Topology Change (17.31). All others are actions on the way to ACTIVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    Inactive,
    Learning,
    Active,
}

/// A port of a bridge.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // the standard's variables
pub struct Port {
    pub(super) number: u16,
    pub(super) config: PortConfig,
    pub(super) link: bool,
    pub(super) admin_enabled: bool,
    pub(super) guarded: bool,
    /// A BPDU that has come (rcvdBPDU) and waits or is being looked at (rcvdMsg).
    pub(super) received: Option<Bpdu>,

    pub(super) receive: Receive,
    pub(super) migration: Migration,
    pub(super) information: Information,
    pub(super) topology: Topology,
    /// Port State Transition (17.30): `learning` and `forwarding` in one.
    pub(super) state: State,
    /// Whether DISABLED_PORT or ALTERNATE_PORT is reached, not only DISABLE_PORT or BLOCK_PORT (17.29).
    pub(super) settled: bool,

    pub(super) agree: bool,
    pub(super) agreed: bool,
    pub(super) designated_priority: Vector,
    pub(super) designated_times: Times,
    pub(super) disputed: bool,
    pub(super) fdb_flush: bool,
    pub(super) forward: bool,
    pub(super) info_is: InfoIs,
    pub(super) learn: bool,
    pub(super) mcheck: bool,
    pub(super) new_info: bool,
    pub(super) oper_edge: bool,
    pub(super) port_priority: Vector,
    pub(super) port_times: Times,
    pub(super) proposed: bool,
    pub(super) proposing: bool,
    pub(super) rcvd_msg: bool,
    pub(super) rcvd_rstp: bool,
    pub(super) rcvd_stp: bool,
    pub(super) rcvd_tc: bool,
    pub(super) rcvd_tc_ack: bool,
    pub(super) rcvd_tcn: bool,
    pub(super) re_root: bool,
    pub(super) reselect: bool,
    pub(super) role: Role,
    pub(super) selected: bool,
    pub(super) selected_role: Role,
    pub(super) send_rstp: bool,
    pub(super) sync: bool,
    pub(super) synced: bool,
    pub(super) tc_ack: bool,
    pub(super) tc_prop: bool,
    pub(super) tx_count: u16,
    pub(super) updt_info: bool,

    pub(super) edge_delay_while: u16,
    pub(super) fd_while: u16,
    pub(super) hello_when: u16,
    pub(super) mdelay_while: u16,
    pub(super) rb_while: u16,
    pub(super) rcvd_info_while: u16,
    pub(super) rr_while: u16,
    pub(super) tc_while: u16,
}

impl Port {
    /// A port whose machines have all just started (BEGIN).
    pub(super) fn new(number: u16, config: PortConfig, bridge: &BridgeConfig) -> Port {
        let id = BridgeId { priority: bridge.priority, address: bridge.address };
        let own =
            Vector { root: id, cost: 0, bridge: id, port: u16::from(config.priority & 0xf0) << 8 | number };
        let times = Times {
            message_age: 0,
            max_age: bridge.max_age,
            hello: bridge.hello,
            forward_delay: bridge.forward_delay,
        };
        Port {
            number,
            config,
            link: false,
            admin_enabled: true,
            guarded: false,
            received: None,
            receive: Receive::Discard,
            migration: Migration::CheckingRstp,
            information: Information::Disabled,
            topology: Topology::Inactive,
            state: State::Discarding,
            settled: false,
            agree: false,
            agreed: false,
            designated_priority: own,
            designated_times: times,
            disputed: false,
            fdb_flush: true,
            forward: false,
            info_is: InfoIs::Disabled,
            learn: false,
            mcheck: false,
            new_info: true,
            oper_edge: config.edge,
            port_priority: own,
            port_times: times,
            proposed: false,
            proposing: false,
            rcvd_msg: false,
            rcvd_rstp: false,
            rcvd_stp: false,
            rcvd_tc: false,
            rcvd_tc_ack: false,
            rcvd_tcn: false,
            re_root: true,
            reselect: true,
            role: Role::Disabled,
            selected: false,
            selected_role: Role::Disabled,
            send_rstp: !bridge.force_stp,
            sync: true,
            synced: false,
            tc_ack: false,
            tc_prop: false,
            tx_count: 0,
            updt_info: false,
            edge_delay_while: MIGRATE_TIME,
            fd_while: times.max_age,
            hello_when: times.hello,
            mdelay_while: MIGRATE_TIME,
            rb_while: 0,
            rcvd_info_while: 0,
            rr_while: times.forward_delay,
            tc_while: 0,
        }
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// What was decided for it.
    pub fn config(&self) -> &PortConfig {
        &self.config
    }

    /// The port's identifier: four bits of priority above twelve of number (9.2.7).
    pub fn id(&self) -> u16 {
        u16::from(self.config.priority & 0xf0) << 8 | self.number & 0xfff
    }

    /// portEnabled: the link is up, and nobody has switched the port off.
    pub fn enabled(&self) -> bool {
        self.link && self.admin_enabled && !self.guarded
    }

    /// Whether its link is up.
    pub fn link(&self) -> bool {
        self.link
    }

    /// Whether BPDU guard has switched it off.
    pub fn guarded(&self) -> bool {
        self.guarded
    }

    /// What it is to the tree.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What it lets through.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it takes itself for one behind which there are no bridges.
    pub fn is_edge(&self) -> bool {
        self.oper_edge
    }

    /// Whether it speaks the rapid protocol.
    pub fn is_rapid(&self) -> bool {
        self.send_rstp
    }

    /// The best that is known on the port's network: who is designated there, and at which cost from the root.
    pub fn designated(&self) -> &Vector {
        &self.port_priority
    }

    /// FwdDelay, HelloTime and MaxAge (17.20): those of the messages that the port sends.
    pub(super) fn fwd_delay(&self) -> u16 {
        self.designated_times.forward_delay
    }

    pub(super) fn hello_time(&self) -> u16 {
        self.designated_times.hello
    }

    pub(super) fn max_age(&self) -> u16 {
        self.designated_times.max_age
    }

    /// forwardDelay (17.20.5).
    pub(super) fn forward_delay(&self) -> u16 {
        if self.send_rstp { self.hello_time() } else { self.fwd_delay() }
    }

    /// EdgeDelay (17.20.4).
    pub(super) fn edge_delay(&self) -> u16 {
        if self.config.point_to_point { MIGRATE_TIME } else { self.max_age() }
    }

    /// One second less for each timer, and for the count of messages sent.
    pub(super) fn second(&mut self) {
        let timers = [
            &mut self.edge_delay_while,
            &mut self.fd_while,
            &mut self.hello_when,
            &mut self.mdelay_while,
            &mut self.rb_while,
            &mut self.rcvd_info_while,
            &mut self.rr_while,
            &mut self.tc_while,
            &mut self.tx_count,
        ];
        for timer in timers {
            *timer = timer.saturating_sub(1);
        }
    }
}
