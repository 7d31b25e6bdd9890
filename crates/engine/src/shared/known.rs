// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration answers by itself: read handlers that need no element and no worker.

use super::Shared;
use element::known::{GLOBAL, HOME, HOTCONFIG, THREADS};
use element::{Access, ElementId, HandlerError, HandlerRef, Signature, Target, secrets};

impl Shared {
    /// The answer of a read handler that needs no element and no worker.
    pub(crate) fn read_known(&self, target: &HandlerRef) -> Option<String> {
        let name = target.handler().name;
        let Target::Element(element) = target.target() else { return self.read_known_global(name) };
        if !target.handler().common {
            return None;
        }
        let info = &self.elements[element];
        Some(match name {
            "name" => info.name.to_string(),
            "class" => info.class.name.to_owned(),
            "config" => {
                let config = self.config_of(element).unwrap_or_else(|| info.config.to_string());
                element::hide::shown(info.class.secrets, &config).into_owned()
            }
            "handlers" => handlers_text(self, element),
            HOME => info.place.home().to_string(),
            _ => return None,
        })
    }

    fn read_known_global(&self, name: &str) -> Option<String> {
        Some(match name {
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            "driver" => "userlevel".to_owned(),
            "config" => secrets::text(&self.blueprint.graph, &self.blueprint.checked.classes),
            "flatconfig" => secrets::flat(&self.blueprint.graph, &self.blueprint.checked.classes),
            // All that Click has in packages is built in.
            "packages" => String::new(),
            "requirements" => self.requirements.iter().map(|r| format!("{r}\n")).collect(),
            "handlers" => {
                let offered = |h: &&Signature| h.name != HOTCONFIG || self.is_reconfigurable();
                GLOBAL.iter().filter(offered).map(describe).collect()
            }
            "list" => {
                let names: String = self.elements.iter().map(|e| format!("{}\n", e.name)).collect();
                format!("{}\n{names}", self.elements.len())
            }
            "classes" => {
                let mut names: Vec<_> = self.elements.iter().map(|e| e.class.name).collect();
                names.sort_unstable();
                names.dedup();
                names.iter().map(|n| format!("{n}\n")).collect()
            }
            "big_lock" => self.big_lock.get().map_or(String::new(), |lock| format!("{}\n", lock.stats())),
            THREADS => self.active_workers().to_string(),
            "locks" => self
                .locks()
                .iter()
                .map(|l| format!("{} {} {} {}\n", l.name, l.how, l.stats, l.made_at))
                .collect(),
            _ => return None,
        })
    }
}

/// The answer of a router that was not started to be reconfigured by handlers.
pub(crate) fn not_reconfigurable() -> HandlerError {
    let why = "this router was not started with -R (--allow-reconfigure), so its configuration can't be replaced here";
    HandlerError::Denied(why.into())
}

fn describe(handler: &Signature) -> String {
    describe_as(handler.name, handler.access)
}

fn describe_as(name: &str, access: Access) -> String {
    let access = match access {
        Access::ReadWrite => "rw",
        Access::Read => "r",
        Access::Write => "w",
    };
    format!("{name}\t{access}\n")
}

fn handlers_text(shared: &Shared, element: ElementId) -> String {
    let own = shared.elements[element].own_handlers.iter().filter(|(name, _)| &**name != "*");
    let own = own.map(|(name, access)| describe_as(name, *access));
    own.chain(shared.handlers(element).map(describe)).collect()
}
