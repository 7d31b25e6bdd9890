// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the process of a plane is to be, and what its guest is to be, if it has one.

use std::path::PathBuf;

use super::{RouterPlane, Up, domain, orphans};
use crate::Error;
use crate::deployment::{Partition, Placement, Plane, Program, Ready};
use crate::groups::Group;
use crate::guest::{self, Guest};
use crate::launch::Launch;
use crate::notify;
use crate::supervisor::Id;

impl Up<'_> {
    /// What a plane's process is to be.
    pub(super) fn description(&self, id: Id, group: &Group) -> Launch {
        let plane = &self.deployment.planes[id];
        let cores = self.deployment.cores_of(plane, self.allowed);
        let mut environment = plane.environment.clone();
        let notify = self.files.notify(&plane.name).display().to_string();
        environment.push((notify::SOCKET.to_owned(), notify));
        // As systemd does: a plane that is asked for heartbeats sends two in the time.
        let heartbeat = plane.heartbeat.map(|every| every.as_micros().to_string());
        environment.extend(heartbeat.map(|every| (notify::HEARTBEAT_US.to_owned(), every)));
        environment.extend(self.words_for_all(plane));
        let command = match plane.partition {
            Partition::Uml | Partition::Kvm => self.host.guest(&self.files.guest(&plane.name)),
            Partition::Process => match &plane.program {
                Program::Command(words) => words.clone(),
                Program::Router { config, set, arguments } => self.host.router(&RouterPlane {
                    plane: &plane.name,
                    config: self.deployment.directory.join(config),
                    set,
                    arguments,
                    cores: &cores,
                    lock_memory: plane.lock_memory,
                    state: self.files.state(&plane.name),
                    share: plane.of.as_ref().map(|of| format!("{}/{of}", self.deployment.name)),
                }),
            },
        };
        Launch {
            supervisor: std::process::id(),
            record: self.files.record(&plane.name),
            groups: group.directories.clone(),
            cores: cores.to_list(),
            class: plane.class.to_string(),
            nice: plane.nice,
            lock_memory: plane.lock_memory,
            netns: plane.netns.clone(),
            own_processes: plane.own_processes,
            directory: self.deployment.directory.clone(),
            environment,
            command,
            descriptors: self.store.names(id),
        }
    }

    /// Variables by which planes find each other.
    fn words_for_all(&self, plane: &Plane) -> Vec<(String, String)> {
        let mut words = vec![
            ("JUNCTOR_DEPLOYMENT".to_owned(), self.deployment.name.clone()),
            (orphans::PLANE.to_owned(), plane.name.clone()),
            (orphans::ID.to_owned(), self.id.clone()),
        ];
        if !domain::endpoints(self.deployment).is_empty() {
            words.push((domain::VARIABLE.to_owned(), self.files.domain().display().to_string()));
        }
        for (variable, channels) in
            [(domain::CALLS, &self.deployment.calls), (domain::STATISTICS, &self.deployment.statistics)]
        {
            let own = channels.iter().filter(|channel| channel.plane == plane.name);
            let own: Vec<&str> = own.map(|channel| channel.name.as_str()).collect();
            if !own.is_empty() {
                words.push((variable.to_owned(), own.join(" ")));
            }
        }
        for other in &self.deployment.planes {
            if let Some(file) = self.deployment.shared_file(other) {
                let name = other.name.to_uppercase().replace('-', "_");
                words.push((format!("JUNCTOR_SHARED_{name}"), file.display().to_string()));
            }
        }
        words
    }

    /// The name of a plane and where its control socket is.
    fn control_socket(&self, id: Id) -> (String, PathBuf) {
        (self.name(id).to_owned(), self.files.control(self.name(id)))
    }

    /// Makes what a guest needs before it starts: the file that describes it, and the memory that it shares.
    pub(super) fn prepare_guest(&self, plane: &Plane) -> Result<(), Error> {
        let Program::Command(command) = &plane.program else {
            return Err(Error::unfit("a router cannot run in an operating system instance"));
        };
        let shared = self.deployment.shared_file(plane);
        if let (Some(file), Some(bytes)) = (&shared, plane.shared) {
            guest::make_shared(file, bytes)?;
        }
        let mut environment = plane.environment.clone();
        // Neither memory nor sockets of this machine are in a guest.
        let is_for_guests = |name: &str| !name.contains("SHARED") && !domain::VARIABLES.contains(&name);
        environment.extend(self.words_for_all(plane).into_iter().filter(|(name, _)| is_for_guests(name)));
        let guest = Guest {
            name: plane.name.clone(),
            machine: self.machine_of(plane)?,
            init: self.host.path().to_owned(),
            memory: plane.memory.unwrap_or(guest::MEMORY),
            interfaces: plane.interfaces.clone(),
            shared,
            reaches: plane.reaches.iter().map(|id| self.control_socket(*id)).collect(),
            channels: guest::region::channels(&plane.statistics),
            domain: self.files.domain(),
            writable: plane.writable.clone(),
            directory: self.deployment.directory.clone(),
            environment,
            command: command.clone(),
            heartbeat: plane.heartbeat,
            ready_when_started: plane.ready == Ready::Started,
        };
        let file = self.files.guest(&plane.name);
        guest.write(&file)
    }

    /// In what the kernel of a plane's guest runs.
    fn machine_of(&self, plane: &Plane) -> Result<guest::Machine, Error> {
        if plane.partition == Partition::Uml {
            return Ok(guest::Machine::Uml);
        }
        let cores = self.deployment.cores_of(plane, self.allowed);
        Ok(guest::Machine::Qemu(guest::Qemu {
            kernel: plane.kernel.clone().map_or_else(guest::kvm::find_kernel, Ok)?,
            emulated: plane.emulated,
            processors: cores.len(),
            // Cores that planes share are left to the scheduler.
            cores: cores.iter().filter(|_| self.deployment.placement == Placement::Amp).collect(),
        }))
    }
}
