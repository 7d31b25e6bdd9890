// SPDX-License-Identifier: MIT OR Apache-2.0
//! What operating system instances share with the machine: the channels that their programs read, and how much memory that takes.

use lang::Diagnostic;

use super::fields::{Findings, Placed};
use super::read::Places;
use super::{Deployment, Partition};
use crate::guest;

/// Finds settings that exclude each other.
pub(super) fn either(
    found: &mut Findings,
    shared: Option<Placed<u64>>,
    uses: [(&str, &[Placed<String>]); 2],
) {
    let Some((_, at)) = shared else { return };
    if let Some((key, _)) = uses.into_iter().find(|(_, list)| !list.is_empty()) {
        let wrong = format!("a plane has either `shared` or `{key}`, which uses the shared memory itself");
        found.wrong_value(at, wrong);
    }
}

/// Finds channels that guests cannot read, and gives each guest the memory that its channels and control connections take.
pub(super) fn memory(found: &mut Findings, deployment: &mut Deployment, places: &[Places]) {
    let guests = deployment.planes.iter_mut().zip(places);
    for (plane, place) in guests.filter(|(plane, _)| plane.partition != Partition::Process) {
        for (name, at) in &place.statistics {
            if deployment.statistics.iter().any(|channel| channel.name == *name) {
                continue;
            }
            let known = deployment.channels.iter().any(|channel| channel.name == *name)
                || deployment.calls.iter().any(|channel| channel.name == *name);
            let wrong = if known {
                let wrong =
                    format!("channel `{name}` carries no statistics, and a guest has no other channels");
                Diagnostic::error("E0706", wrong)
                    .help("with `reaches`, `junctor ctl` in the guest speaks to a plane")
            } else {
                let names = deployment.statistics.iter().map(|channel| channel.name.as_str());
                let wrong = Diagnostic::error("E0706", format!("there is no channel `{name}`"));
                wrong.did_you_mean(lang::suggest(name, names))
            };
            found.list.push(wrong.at(*at));
        }
        let names: Vec<&str> = place.statistics.iter().map(|(name, _)| name.as_str()).collect();
        plane.statistics =
            deployment.channels.iter().filter(|c| names.contains(&&*c.name)).cloned().collect();
        if place.reaches.is_empty() && plane.statistics.is_empty() {
            continue;
        }
        let bytes = guest::region::bytes(!place.reaches.is_empty(), &plane.statistics);
        // A resource of a device is as large as a power of two.
        let is_kvm = plane.partition == Partition::Kvm;
        plane.shared = Some(if is_kvm { bytes.next_power_of_two() } else { bytes });
    }
}
