// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual routers of a router (VRRP), which keepalived runs next to the twins.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use crate::daemons::Daemon;

/// A virtual router: the interface's number and name, its own number, and its addresses.
struct Virtual<'a> {
    place: usize,
    interface: &'a str,
    number: u8,
    addresses: Vec<IpAddr>,
}

/// Reads `eth0=7:10.0.1.254,2001:db8::254`.
fn read<'a>(text: &'a str, interfaces: &[&str]) -> Result<Virtual<'a>, String> {
    let bad = || {
        format!(
            "--vrrp expects an interface, a number from 1 to 255 and addresses, as eth0=7:10.0.1.254, not '{text}'"
        )
    };
    let (interface, rest) = text.split_once('=').ok_or_else(bad)?;
    let (number, addresses) = rest.split_once(':').ok_or_else(bad)?;
    let number: u8 = number.parse().ok().filter(|number| *number > 0).ok_or_else(bad)?;
    let addresses: Result<Vec<IpAddr>, _> = addresses.split(',').map(str::parse).collect();
    let place = interfaces.iter().position(|name| *name == interface);
    let place = place.ok_or_else(|| format!("--vrrp {text}: '{interface}' is none of the interfaces"))?;
    Ok(Virtual { place, interface, number, addresses: addresses.map_err(|_| bad())? })
}

/// keepalived with these virtual routers, its files in a directory.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn keepalived(
    name: &str,
    asked: &[String],
    interfaces: &[String],
    directory: &Path,
) -> Result<Daemon, String> {
    let names: Vec<&str> =
        interfaces.iter().map(|text| text.split_once('=').map_or(&**text, |(name, _)| name)).collect();
    let mut text = format!(
        "# The router with the highest priority has the addresses. Give each router another priority.\n\
         global_defs {{\n    router_id {name}\n    vrrp_version 3\n    \
         # Twins go and come back with the router.\n    dynamic_interfaces allow_if_changes\n}}\n"
    );
    for text_of_one in asked {
        let Virtual { place, interface, number, addresses } = read(text_of_one, &names)?;
        for (family, is_six) in [(4, false), (6, true)] {
            let mut addresses = addresses.iter().filter(|address| address.is_ipv6() == is_six).peekable();
            if addresses.peek().is_none() {
                continue;
            }
            let _ = write!(
                text,
                "\nvrrp_instance {interface}-{number}-IPv{family} {{\n    interface host{place}\n    \
                 virtual_router_id {number}\n    use_vmac v{family}-{place}-{number}\n    state BACKUP\n    \
                 priority 100\n    # Seconds.\n    advert_int 0.1\n    virtual_ipaddress {{\n"
            );
            addresses.for_each(|address| _ = writeln!(text, "        {address}"));
            text += "    }\n}\n";
        }
    }
    let at = directory.display();
    let command = [
        "/usr/sbin/keepalived".to_owned(),
        "--dont-fork".into(),
        "--log-console".into(),
        format!("--use-file={at}/keepalived.conf"),
        format!("--pid={at}/keepalived.pid"),
        format!("--vrrp_pid={at}/vrrp.pid"),
        "--vrrp".into(),
    ];
    Ok(Daemon { name: "keepalived".into(), text, command: command.to_vec(), after: "user" })
}
