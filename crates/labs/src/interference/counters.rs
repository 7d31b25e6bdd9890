// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the processor counts while the control plane works, if it does: misses of the caches, and snoops by the names that drivers give.

use profile::kernel::counters::Counters;

use super::super::shared::Setting;
use super::super::study::{Cell, Origin, Table, digits};
use super::control::{Control, Victim};
use super::plane::Plane;
use super::rounds;
use crate::Error;
use report::measure::Measured;

/// What is asked for, whether or not it is there.
const WANTED: [&str; 3] = ["cycles", "instructions", "cache-misses"];
/// Snoop events of processors: vendor, families, and the events that tell of lines that came from another core's cache.
const SNOOP_EVENTS: [(&str, &str); 3] = [
    ("GenuineIntel", "mem_load_l3_hit_retired.xsnp_hitm, or xsnp_fwd since Ice Lake"),
    ("AuthenticAMD", "ls_any_fills_from_sys with the sources of other caches (Zen 3 and later)"),
    ("ARM", "bus_access and the interconnect's own snoop events"),
];

/// What the machine lacks of counters, in words.
pub(super) fn lacks() -> String {
    let names: Vec<String> = Counters::find().0.names().into_iter().map(|name| name.name).collect();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let events = snoop_events(&cpuinfo);
    if WANTED.iter().any(|wanted| !names.iter().any(|name| name == wanted)) {
        return format!(
            "Counters: this machine gives no hardware counters to programs. The study counted snoops; causes are derived here by taking them out. Where counters are there, the events to look at are {events}."
        );
    }
    match names.iter().any(|name| is_snoop(name)) {
        true => "Counters: the study read its processor's snoop counters by name; here they are those that the kernel's drivers name.".to_owned(),
        false => format!("Counters: the kernel names no snoop event of this processor. Raw events to look at are {events}."),
    }
}

fn is_snoop(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains("snoop") || name.contains("hitm")
}

/// Names of snoop events of the processor that `/proc/cpuinfo` describes.
fn snoop_events(cpuinfo: &str) -> &'static str {
    let vendor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("vendor_id")?.split_once(": ").map(|(_, v)| v.trim()));
    let vendor = vendor.unwrap_or("ARM");
    SNOOP_EVENTS
        .iter()
        .find(|(name, _)| *name == vendor)
        .map_or("unknown for this processor", |(_, events)| events)
}

/// What is counted for each KiB of the victims' work, paused and loaded.
pub(super) fn table(
    setting: &mut Setting<'_>,
    plane: &mut Plane,
    control: &mut Control,
    victims: &[Victim],
) -> Result<Table, Error> {
    let names = control.counters()?;
    let mut wanted: Vec<&str> = WANTED.to_vec();
    wanted.extend(names.iter().map(String::as_str).filter(|name| is_snoop(name)));
    if !names.iter().any(|name| is_snoop(name)) {
        wanted.push("snoops");
    }
    let columns = [
        ("counted, for each µs of work", Origin::Name),
        ("work", Origin::Name),
        ("paused", Origin::Measured),
        ("loaded", Origin::Measured),
    ];
    let mut table =
        Table::new("What the processor counts, beside the reflector with a ring of 1,024", &columns);
    for victim in victims {
        for what in &wanted {
            if !names.iter().any(|name| name == what) {
                let missing = || Cell::missing("not counted here");
                table.row(vec![Cell::new(*what), Cell::new(victim.name()), missing(), missing()]);
                continue;
            }
            let length = setting.common.length();
            let work = || victim.count(control, length, what);
            let found = rounds::compare(setting.common.rounds().min(3), &mut [&mut *plane], work, || {})?;
            let median = |values: &[f64]| Cell::new(digits(Measured::new("", "", values.to_vec()).median()));
            let cells = found.first().map(|pairs| [median(&pairs.paused), median(&pairs.loaded)]);
            let mut row = vec![Cell::new(*what), Cell::new(victim.name())];
            row.extend(cells.into_iter().flatten());
            table.row(row);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snoop_events_have_names_by_processor() {
        assert!(snoop_events("vendor_id\t: GenuineIntel\n").contains("xsnp"));
        assert!(snoop_events("vendor_id\t: AuthenticAMD\n").contains("ls_any_fills"));
        assert!(snoop_events("processor : 0\n").contains("bus_access"));
        assert_eq!(snoop_events("vendor_id : Nobody\n"), "unknown for this processor");
        assert!(is_snoop("Snoops_L3") && is_snoop("xsnp_hitm") && !is_snoop("cycles"));
    }
}
