// SPDX-License-Identifier: MIT OR Apache-2.0
//! strongSwan in a written deployment: charon makes the associations of the router, next to the twins. Its connections are for the user to write.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use elements::compound::router::Address;

use crate::daemons::{Daemon, Twin};
use crate::{Error, charon};

/// The plane of the daemon, and the channel by which the control plane calls the router for it.
pub(crate) const PLANE: &str = "charon";
pub(crate) const CHANNEL: &str = "keys";

/// What charon and swanctl load. Those that are not installed are left out with a line in the log.
const PLUGINS: &str = "random nonce aes sha1 sha2 hmac kdf gcm curve25519 openssl pem pkcs1 pkcs8 pubkey x509 constraints \
                       revocation kernel-netlink socket-default attr vici";

/// Directories of certificates and keys, which swanctl looks for.
const DIRECTORIES: [&str; 13] = [
    "x509", "x509ca", "x509ocsp", "x509aa", "x509ac", "x509crl", "pubkey", "private", "rsa", "ecdsa",
    "bliss", "pkcs8", "pkcs12",
];

/// `AT` is the directory, as a part of a quoted string.
const SETTINGS: &str = r#"# strongswan.conf(5) of the router's key daemon.
charon {
    # Further ones of libcharon-extauth-plugins and others, as eap-identity and eap-mschapv2, are added here.
    load = PLUGINS
    # The router has its own routes, and addresses of its own.
    install_routes = no
    install_virtual_ip = no
    # Workers of the router may take packets of one association side by side, and so out of order.
    replay_window = 1024
    plugins {
        vici {
            socket = "unix://AT/vici"
        }
    }
    start-scripts {
        connections = SWANCTL --load-all --noprompt
    }
    # 'junctor logs charon' shows it. What goes to stdout would come late: charon buffers it.
    filelog {
        stderr {
            default = 1
            ike_name = yes
        }
    }
}
swanctl {
    load = random openssl pem pkcs1 pkcs8 pubkey x509
    socket = "unix://AT/vici"
}
"#;

/// `AT` is the directory, `OWN` this router's address, and `NET` a network behind it.
const CONNECTIONS: &str = r#"# Tunnels of this router: swanctl.conf(5). Take the comment signs off one of the examples, and change addresses, names and secrets.
# After a change:
#     swanctl --load-all --uri unix://AT/vici --file AT/swanctl.conf
# What runs:
#     swanctl --list-sas --uri unix://AT/vici
#
# Certificates are in x509 and x509ca next to this file, keys of them in private.

connections {

    # Another site: its gateway is 203.0.113.2, and the network behind that is 10.2.0.0/16. Packets for it make the tunnel if it is not there. The other gateway has the
    # same with both sides exchanged.
    # site {
    #     version = 2
    #     local_addrs = OWN
    #     remote_addrs = 203.0.113.2
    #     dpd_delay = 30s
    #     keyingtries = 0
    #     local {
    #         auth = psk
    #         id = one.example.org
    #     }
    #     remote {
    #         auth = psk
    #         id = two.example.org
    #     }
    #     children {
    #         net {
    #             local_ts = NET
    #             remote_ts = 10.2.0.0/16
    #             esp_proposals = aes256gcm16-x25519
    #             start_action = trap|start
    #             close_action = trap
    #             dpd_action = restart
    #         }
    #     }
    # }

    # Road warriors, each of whom gets an address of the pool 'road'. They may be behind the same NAT. For IPv6 as well, add a pool of such addresses (pools = road, road6) and
    # a network to local_ts. Packets for an address that nobody has at the moment follow the routes, unprotected, unless a policy in router.click drops them:
    #     ipsec :: IPsecDatabase(POLICY dst 10.9.0.0/24 dir out priority 4000000000 action block);
    # road {
    #     version = 2
    #     local_addrs = OWN
    #     pools = road
    #     dpd_delay = 30s
    #     local {
    #         auth = psk
    #         id = gateway.example.org
    #     }
    #     remote {
    #         auth = psk
    #         id = *@example.org
    #     }
    #     children {
    #         home {
    #             local_ts = NET
    #             esp_proposals = aes256gcm16-x25519
    #             dpd_action = clear
    #         }
    #     }
    # }
}

# pools {
#     road {
#         addrs = 10.9.0.0/24
#     }
# }

# secrets {
#     ike-site {
#         id = two.example.org
#         secret = "take a long one, of 'openssl rand -base64 32'"
#     }
#     ike-anna {
#         id = anna@example.org
#         secret = "another one"
#     }
# }
"#;

/// The daemon of a router with these twins. Its files are written to a directory, which only root may read.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn daemon(twins: &[Twin], directory: &Path, warnings: &mut Vec<String>) -> Result<Daemon, Error> {
    warnings.extend(charon::lacks().map(|why| format!("the deployment will not start yet: {why}")));
    let failed = |why| Error::file(directory, why);
    fs::DirBuilder::new().mode(0o700).create(directory).map_err(failed)?;
    for (name, text) in
        [("strongswan.conf", settings(directory)), ("swanctl.conf", connections(twins, directory))]
    {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(directory.join(name));
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
    }
    for name in DIRECTORIES {
        fs::DirBuilder::new().mode(0o700).create(directory.join(name)).map_err(failed)?;
    }
    let at = directory.display().to_string();
    let command = ["junctor", "charon", "--xfrm", &socket(directory), "--directory", &at];
    Ok(Daemon {
        name: PLANE.into(),
        text: String::new(),
        command: command.map(str::to_owned).to_vec(),
        after: "routes",
    })
}

/// The socket of the control plane for the daemon with this directory.
pub(crate) fn socket(directory: &Path) -> String {
    directory.join("xfrm").display().to_string()
}

fn settings(directory: &Path) -> String {
    let at = directory.display().to_string().replace('\\', r"\\").replace('"', "\\\"");
    SETTINGS
        .replace("PLUGINS", PLUGINS)
        .replace("SWANCTL", charon::swanctl())
        .replace("AT/", &format!("{at}/"))
}

fn connections(twins: &[Twin], directory: &Path) -> String {
    let first = |twin: Option<&Twin>| twin.and_then(|twin| twin.addresses.first().copied());
    let own = first(twins.first()).map_or_else(
        || "%any".to_owned(),
        |address| match address {
            Address::Four(four) => four.addr.to_string(),
            Address::Six(six) => six.addr().to_string(),
        },
    );
    let network = first(twins.get(1)).and_then(|address| match address {
        Address::Four(four) => four.prefix().map(|prefix| prefix.to_string()),
        Address::Six(six) => Some(six.prefix().to_string()),
    });
    CONNECTIONS
        .replace("OWN", &own)
        .replace("NET", network.as_deref().unwrap_or("10.1.0.0/16"))
        .replace("AT/", &format!("{}/", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_this_router() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a \"b\"");
        let twins = crate::daemons::twins(&["a=192.0.2.1/24", "b=10.1.0.1/16"].map(String::from));
        let daemon = daemon(&twins, &directory, &mut Vec::new()).unwrap();
        assert_eq!(daemon.command[..2], ["junctor", "charon"]);
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        let text = read("swanctl.conf");
        assert!(
            text.contains("local_addrs = 192.0.2.1\n") && text.contains("local_ts = 10.1.0.0/16\n"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().all(|c| c == ' ' || c == '}')
                || line.trim().starts_with('#')
                || line == "connections {"),
            "{text}"
        );
        let text = read("strongswan.conf");
        assert!(text.contains("/a \\\"b\\\"/vici\"\n") && !text.contains("SWANCTL"), "{text}");
        let mode = fs::metadata(directory.join("swanctl.conf")).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    }
}
