// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces of a written deployment that get their IPv4 address by DHCP: a client (udhcpc) for each, next to its twin.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use elements::compound::router::Router;

use crate::Error;
use crate::daemons::Daemon;

/// Where the client may be.
const PLACES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// What the client does with a lease. It leaves name servers and the like alone, which belong to the machine.
const SCRIPT: &str = r#"#!/bin/sh
# Gives a twin the address of a DHCP lease, which the router follows, and the default route.
# The kernel takes the address away when the lease has run out.

# Takes the addresses of other leases away. Addresses that do not end are not a lease's, and stay.
others() {
    ip -4 -o addr show dev "$interface" scope global dynamic | while read -r _ _ _ address _; do
        [ "$address" = "$1" ] || ip addr del "$address" dev "$interface"
    done
}

case "$1" in
deconfig)
    others none
    ;;
bound | renew)
    # An address of the same network would go together with an older one.
    others "$ip/${mask:-24}"
    ip addr replace "$ip/${mask:-24}" dev "$interface" valid_lft "${lease:-3600}" preferred_lft "${lease:-3600}"
    for gateway in $router; do
        ip route replace default via "$gateway" dev "$interface" onlink proto dhcp metric 100 table "$TABLE"
        break
    done
    ;;
esac
"#;

/// The clients of a router, whose script is written to a directory; none if no interface needs one.
///
/// # Errors
/// The script cannot be written.
pub(crate) fn clients(
    router: &Router,
    directory: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<Daemon>, Error> {
    let asking = router.interfaces.iter().enumerate().filter(|(_, interface)| interface.dhcp);
    let asking: Vec<usize> = asking.map(|(i, _)| i).collect();
    if asking.is_empty() {
        return Ok(Vec::new());
    }
    let script = directory.join("lease");
    let written = fs::create_dir(directory)
        .and_then(|()| fs::write(&script, SCRIPT))
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
    written.map_err(|why| Error::file(&script, why))?;
    let found = PLACES.iter().map(|place| Path::new(place).join("udhcpc")).find(|path| path.exists());
    if found.is_none() {
        warnings.push("no DHCP client is here: install udhcpc (a part of BusyBox)".into());
    }
    let program = found.map_or_else(|| "udhcpc".to_owned(), |path| path.display().to_string());
    let client = |i: usize| {
        let (twin, script) = (format!("host{i}"), script.display().to_string());
        // The routing table of the twin's VRF.
        let table = router.vrfs.iter().find(|vrf| vrf.interfaces.contains(&i));
        let table = table.map_or_else(|| "TABLE=main".to_owned(), |vrf| format!("TABLE={}", vrf.table));
        let words =
            ["env", &table, &program, "-f", "-i", &twin, "-s", &script, "-t", "3", "-T", "1", "-A", "5"];
        let command = words.map(str::to_owned).to_vec();
        Daemon { name: format!("dhcp{i}"), text: String::new(), command, after: "user" }
    };
    Ok(asking.into_iter().map(client).collect())
}
