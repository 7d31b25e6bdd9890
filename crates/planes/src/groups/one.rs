// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cpusets of version 1. A group may have only cores of the one above it, and an exclusive one shares none with its siblings.

use std::path::Path;

use super::{Placed, Wish, list, make, set, text, write};
use crate::Error;

const CORES: &str = "cpuset.cpus";
const NODES: &str = "cpuset.mems";
const EXCLUSIVE: &str = "cpuset.cpu_exclusive";

/// Makes the cpuset of a plane, and that of its deployment above it, which has the cores of all planes and no others.
pub(super) fn cpuset(parent: &Path, wish: &Wish<'_>) -> Result<Placed, Error> {
    let (above, directory) = (wish.above(parent), wish.directory(parent));
    make(&above)?;
    let nodes = text(parent.join(NODES)).unwrap_or_default();
    if text(above.join(NODES)).unwrap_or_default().is_empty() {
        write(&above.join(NODES), &nodes)?;
    }
    if let Err(why) = set(&above, CORES, wish.all) {
        // Planes that still run may have other cores: those stay until they end.
        let both = list(&above.join(CORES)).unwrap_or_default().iter().chain(wish.all.iter()).collect();
        set(&above, CORES, &both).map_err(|_| why)?;
    }
    make(&directory)?;
    write(&directory.join(NODES), &text(above.join(NODES)).unwrap_or_default())?;
    set(&directory, CORES, wish.cores)?;
    let mut placed = Placed { directory, kind: "cpuset", missing: None };
    if wish.own {
        let exclusive = [above, placed.directory.clone()];
        match exclusive.iter().try_for_each(|group| write(&group.join(EXCLUSIVE), "1")) {
            Ok(()) => placed.kind = "exclusive cpuset",
            Err(why) => placed.missing = Some(format!("cores {} are not exclusive: {why}", wish.cores)),
        }
    }
    Ok(placed)
}
