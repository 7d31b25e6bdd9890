// SPDX-License-Identifier: MIT OR Apache-2.0
//! Confines itself, then does in a thread of some role what its arguments say: ROLE DEED DIRECTORY. For the tests.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use junctor_confine::files::Files;
use junctor_confine::{Needs, Plan, Role};

fn act(deed: &str, directory: &Path) -> std::io::Result<()> {
    match deed {
        "nothing" => Ok(()),
        "file" => std::fs::read(directory.join("secret")).map(drop),
        "elsewhere" => std::fs::read("/etc/shadow").map(drop),
        "write" => std::fs::write(directory.join("new"), "").map(drop),
        "socket" => std::net::UdpSocket::bind("127.0.0.1:0").map(drop),
        "thread" => std::thread::Builder::new().spawn(|| ()).map(|thread| thread.join().unwrap()),
        "program" => match Command::new("/bin/true").status()? {
            status if status.success() => Ok(()),
            status => Err(std::io::Error::other(status.to_string())),
        },
        "mount" => rustix::process::chroot("/").map_err(Into::into),
        "pipe" => {
            let (mut reader, mut writer) = std::io::pipe()?;
            writer.write_all(b"x")?;
            reader.read_exact(&mut [0])
        }
        other => panic!("{other}"),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, deed, directory] = &words[..] else { panic!("ROLE DEED DIRECTORY") };
    let directory = PathBuf::from(directory);
    let mut files = Files { read: vec![directory.clone()], ..Files::default() };
    if role == "starter" {
        files.run_itself();
    }
    let plan = Plan { files, ..Plan::default() };
    eprintln!("{}", plan.enforce().unwrap().summary);
    let other = match &**role {
        "service" | "starter" => Some(Role::Service),
        "main" => Some(Role::Main),
        "recorder" => Some(Role::Recorder),
        _ => None,
    };
    let ended = if let Some(role) = other {
        junctor_confine::enter(role).unwrap();
        act(deed, &directory)
    } else {
        let needs = Needs { files: role == "files", sockets: role == "sockets" };
        std::thread::scope(|scope| {
            let body = || {
                junctor_confine::enter_worker(needs).unwrap();
                act(deed, &directory)
            };
            std::thread::Builder::new()
                .name("worker-0".into())
                .spawn_scoped(scope, body)
                .unwrap()
                .join()
                .unwrap()
        })
    };
    match ended {
        Ok(()) => eprintln!("it went well"),
        Err(why) => eprintln!("it failed: {why}"),
    }
}
