// SPDX-License-Identifier: MIT OR Apache-2.0
//! FRR computing routes beside the reflector: how long until a table that a BGP neighbour sends is in the kernel.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::rig::{self, Namespace, Resident};

use super::super::report::{Cell, Origin, Section, Table};
use super::super::shared::Setting;
use super::machine::Place;
use super::plane::Plane;
use super::speaker::{Route, Speaker, updates};
use super::tools::{Time, enclosed, thread_ns};
use super::{Args, rounds};
use crate::fib::files::How;

/// Where distributions put the daemons.
const DIRECTORIES: [&str; 4] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin", "/usr/local/sbin"];
/// How long a daemon may take for anything.
const PATIENCE: Duration = Duration::from_secs(300);
const DAEMON: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The neighbour, by which all routes lead.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const NEIGHBOUR_AS: u16 = 65_001;
/// Routes that are looked for while the daemons work.
const SAMPLES: usize = 128;
/// Routes of a quick run.
const QUICK_ROUTES: usize = 1000;

const BGPD: &str = "hostname lab
router bgp 65000
 bgp router-id 198.18.0.1
 no bgp ebgp-requires-policy
 neighbor 198.18.0.2 remote-as 65001
 neighbor 198.18.0.2 passive
";

/// Measures.
pub(super) fn run(
    setting: &mut Setting<'_>,
    args: &Args,
    place: &Place,
    plane: &mut Plane,
) -> Result<Section, String> {
    setting.progress.part("routes");
    let (routes, source) = table(setting, args)?;
    let rounds = setting.common.rounds().min(5);
    let mut shown = Table::new(
        format!("Until {} routes {source} are in the kernel, {rounds} times in each state", routes.len()),
        &[
            ("", Origin::Name),
            ("slower, processor time", Origin::Measured),
            ("slower, time of the clock", Origin::Measured),
            ("paused, s", Origin::Measured),
            ("loaded, s", Origin::Measured),
            ("frames, thousands/s", Origin::Measured),
            ("its CPU has", Origin::Name),
        ],
    );
    let found = rig::available().map_err(|why| format!("left out: {why}")).and_then(|()| {
        let directory = daemons()?;
        setting.progress.expect(rounds);
        measure(setting, &directory, &routes, rounds, place, plane).map_err(|why| format!("failed: {why}"))
    });
    let mut cells = vec![Cell::new("FRR: bgpd, zebra")];
    match found {
        Ok((cpu, wall)) => {
            cells.extend(row(setting, routes.len(), &cpu, &wall));
            cells.push(Cell::new("daemons and neighbour"));
        }
        Err(why) => {
            setting.progress.say(&format!("routes: {why}"));
            cells.extend(rounds::absent(why));
        }
    }
    shown.row(cells);
    Ok(Section {
        title: "Routes".into(),
        text: vec![
            "The control plane's own work, which the study does not have: bgpd receives a table from a neighbour that sends all at once, and zebra puts it into the kernel. It has converged when the routes that are looked for lead somewhere and zebra counts all. Then the neighbour leaves, all routes go, and the next time begins. Processor time is that of both daemons.".into(),
            place.in_words(),
        ],
        tables: vec![shown],
        ..Section::default()
    })
}

/// The routes, and where they come from.
fn table(setting: &Setting<'_>, args: &Args) -> Result<(Vec<Route>, String), String> {
    let most = args.prefixes as usize;
    let most = if setting.common.quick { most.min(QUICK_ROUTES) } else { most };
    let Some(file) = &args.routes else { return Ok((made_up(most), "made up here".to_owned())) };
    let read = How::guessed().read(std::slice::from_ref(file))?;
    // What the kernel or the daemons would refuse: loopback, multicast, our own.
    let usable = |(address, len): &Route| {
        *len > 0 && !matches!(address >> 24, 0 | 127 | 224..) && *address >> 17 != u32::from(NEIGHBOUR) >> 17
    };
    let routes: Vec<Route> =
        read.v4.iter().map(|(prefix, _)| (prefix.addr(), prefix.len())).filter(usable).take(most).collect();
    if routes.is_empty() {
        return Err(format!("{}: there is no IPv4 route in it", file.display()));
    }
    Ok((routes, format!("of {}", file.display())))
}

/// So many prefixes of 24 bits from 1.0.0.0 on, each second one only, so that none could be joined with another.
fn made_up(routes: usize) -> Vec<Route> {
    let all = (0..).map(|i| (0x0100_0000 + (i << 9), 24));
    // A neighbour's network, and what is no unicast address.
    all.filter(|(address, _)| !matches!(address >> 24, 127 | 198)).take(routes).collect()
}

/// Where FRR's daemons are.
fn daemons() -> Result<PathBuf, String> {
    let mut all = DIRECTORIES.iter().map(PathBuf::from);
    let there = all.find(|dir| ["bgpd", "zebra"].iter().all(|name| dir.join(name).exists()));
    there.ok_or_else(|| "left out: FRR is not installed (sudo apt-get install frr)".to_owned())
}

/// FRR in a namespace, with everything that it writes in a directory.
struct Frr {
    directory: tempfile::TempDir,
    namespace: Namespace,
    /// Where its neighbour is.
    beyond: Namespace,
    daemons: Vec<Resident>,
    /// Their numbers.
    numbers: Vec<u32>,
}

impl Frr {
    fn start(programs: &Path, cpu: usize) -> Result<Frr, String> {
        let directory = tempfile::Builder::new().prefix("frr").tempdir().map_err(|e| e.to_string())?;
        let namespace = Namespace::unnamed().map_err(|e| e.to_string())?;
        let beyond = Namespace::unnamed().map_err(|e| e.to_string())?;
        let link = format!("link add lab0 type veth peer name lab1 netns {}", beyond.name());
        for (namespace, command) in [
            (&namespace, &link[..]),
            (&namespace, "address add 198.18.0.1/24 dev lab0"),
            (&namespace, "link set lab0 up"),
            (&beyond, "address add 198.18.0.2/24 dev lab1"),
            (&beyond, "link set lab1 up"),
        ] {
            namespace.ip(command).map_err(|e| e.to_string())?;
        }
        let user = nix::unistd::User::from_name("frr").ok().flatten().ok_or("there is no user 'frr'")?;
        let own = |path: &Path| {
            std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .map_err(|e| format!("{}: {e}", path.display()))
        };
        own(directory.path())?;
        let mut frr = Frr { directory, namespace, beyond, daemons: Vec::new(), numbers: Vec::new() };
        for (name, text) in [("zebra", "hostname lab\n"), ("bgpd", BGPD)] {
            let config = frr.directory.path().join(format!("{name}.conf"));
            std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
            own(&config)?;
            frr.daemon(programs, name, cpu)?;
        }
        let daemon = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            ["zebra", "bgpd"].contains(&name.trim())
        };
        frr.numbers =
            frr.namespace.inhabitants().into_iter().map(i32::cast_unsigned).filter(daemon).collect();
        Ok(frr)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn daemon(&mut self, programs: &Path, name: &str, cpu: usize) -> Result<(), String> {
        let program = programs.join(name).display().to_string();
        let (config, pid) = (self.path(&format!("{name}.conf")), self.path(&format!("{name}.pid")));
        let (zebra, sockets) = (self.path("zserv.api"), self.directory.path().display().to_string());
        let mut words =
            vec![&program[..], "-f", &config, "-i", &pid, "-z", &zebra, "--vty_socket", &sockets, "-P", "0"];
        if name == "bgpd" {
            words.extend(["-l", "198.18.0.1"]);
        }
        let mut daemon = enclosed(&self.namespace, &words, cpu)?;
        let (started, socket) = (Instant::now(), self.directory.path().join(format!("{name}.vty")));
        // zebra listens for other daemons a moment later.
        while !socket.exists() || (name == "zebra" && !Path::new(&zebra).exists()) {
            if let Some(status) = daemon.process.ended() {
                return Err(format!("{name} ended with {status}: {}", daemon.process.stderr().trim()));
            }
            rest(started, &format!("{name} does not start"))?;
        }
        self.daemons.push(daemon);
        Ok(())
    }

    /// Processor time of both daemons so far.
    fn cpu_ns(&self) -> f64 {
        self.numbers.iter().map(|pid| thread_ns(*pid)).sum()
    }

    /// Routes of BGP that zebra has, and has put into the kernel.
    fn counted(&self) -> Option<[u64; 2]> {
        let directory = self.directory.path().display().to_string();
        let words = ["vtysh", "--vty_socket", &directory, "-d", "zebra", "-c", "show ip route summary json"];
        let text = self.namespace.run(&words).ok()?;
        let value: serde_json::Value = serde_json::from_str(&text).ok()?;
        let of = |protocol: &serde_json::Value| {
            let is = protocol["type"].as_str().is_some_and(|name| name.contains("bgp"));
            is.then(|| ["rib", "fib"].map(|key| protocol[key].as_u64().unwrap_or(0)))
        };
        let all = value["routes"].as_array()?.iter().filter_map(of);
        Some(all.fold([0; 2], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]]))
    }

    /// A whole time: the session comes up, all routes arrive; then all go again.
    fn converge(&self, messages: &[u8], routes: &[Route]) -> Result<Time, String> {
        let step = routes.len().div_ceil(SAMPLES).max(1);
        let samples: Vec<Ipv4Addr> =
            routes.iter().rev().step_by(step).map(|(address, _)| Ipv4Addr::from(address + 1)).collect();
        let mut speaker = self.beyond.enter(|| self.meet()).map_err(|e| e.to_string())??;
        let inside = || {
            let (started, before) = (Instant::now(), self.cpu_ns());
            speaker.send(messages).map_err(|e| format!("bgpd: {e}"))?;
            let sight = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
            // To connect such a socket sends nothing, and succeeds when there is a route.
            let there = |address: &Ipv4Addr| sight.connect((*address, 9)).is_ok();
            while !samples.iter().all(there) {
                rest(started, "the routes do not all come")?;
            }
            let mut time = Time { wall_s: started.elapsed().as_secs_f64(), cpu_ns: self.cpu_ns() - before };
            while self.counted() != Some([routes.len() as u64; 2]) {
                rest(started, "zebra does not count all routes")?;
                time = Time { wall_s: started.elapsed().as_secs_f64(), cpu_ns: self.cpu_ns() - before };
            }
            drop(speaker);
            while self.counted() != Some([0; 2]) {
                rest(started, "the routes do not all go")?;
            }
            Ok(time)
        };
        self.namespace.enter(inside).map_err(|e| e.to_string())?
    }

    /// Opens a session; bgpd refuses until it is ready, and after the last one for a moment.
    fn meet(&self) -> Result<Speaker, String> {
        let started = Instant::now();
        loop {
            match Speaker::connect(NEIGHBOUR, DAEMON, NEIGHBOUR_AS) {
                Ok(speaker) => return Ok(speaker),
                Err(why) => rest(started, &format!("bgpd takes no session ({why})"))?,
            }
        }
    }
}

/// Waits a moment, unless it has taken too long.
fn rest(started: Instant, what: &str) -> Result<(), String> {
    if started.elapsed() > PATIENCE {
        return Err(format!("{what} within {} s", PATIENCE.as_secs()));
    }
    std::thread::sleep(Duration::from_millis(2));
    Ok(())
}

/// Times by the processor and by the clock.
fn measure(
    setting: &mut Setting<'_>,
    programs: &Path,
    routes: &[Route],
    rounds: usize,
    place: &Place,
    plane: &mut Plane,
) -> Result<(rounds::Pairs, rounds::Pairs), String> {
    let frr = Frr::start(programs, place.control)?;
    let messages = updates(routes, NEIGHBOUR_AS, NEIGHBOUR);
    let mut walls = Vec::new();
    let work = || {
        let time = frr.converge(&messages, routes)?;
        walls.push(time.wall_s);
        Ok(time.cpu_ns)
    };
    let mut found = rounds::compare(rounds, &mut [plane], work, || setting.progress.step())?;
    let cpu = found.pop().unwrap_or_default();
    let wall = rounds::Pairs::of_values(&walls, &cpu.rate);
    Ok((cpu, wall))
}

fn row(setting: &mut Setting<'_>, routes: usize, cpu: &rounds::Pairs, wall: &rounds::Pairs) -> Vec<Cell> {
    let slower = rounds::note(setting, "routes_slower.frr", cpu);
    let by_clock = rounds::note(setting, "routes_slower_clock.frr", wall);
    let paused = setting.note("interference.routes_s.paused.frr", "s", wall.paused.clone());
    let loaded = setting.note("interference.routes_s.loaded.frr", "s", wall.loaded.clone());
    setting.find(format!(
        "FRR with {routes} routes, with the reflector at line rate: processor time {}; by the clock {}.",
        cpu.in_words(),
        wall.in_words()
    ));
    vec![
        rounds::cell(&slower),
        rounds::cell(&by_clock),
        Cell::measured(&paused),
        Cell::measured(&loaded),
        rounds::rate_cell(wall),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_routes_are_unicast_and_differ() {
        let routes = made_up(2_000_000);
        assert!(routes.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(routes.iter().all(|(address, len)| {
            *len == 24 && address & 0xff == 0 && !matches!(address >> 24, 0 | 127 | 198)
        }));
        assert_eq!(made_up(3)[2], (0x0100_0400, 24));
    }
}
