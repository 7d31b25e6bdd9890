// SPDX-License-Identifier: MIT OR Apache-2.0
//! The initial file system of a virtual machine's kernel (`Documentation/driver-api/early-userspace/buffer-format.rst`): this program,
//! the libraries that it needs, and drivers.

use crate::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the drivers are, in the order in which they are loaded.
pub(super) const MODULES: &str = "/modules";
/// Drivers that a guest needs, each behind those that it needs itself, and whether every kernel has it. Some have it built in.
const DRIVERS: [(&str, bool); 15] = [
    ("drivers/virtio/virtio_ring", true),
    ("drivers/virtio/virtio", true),
    ("drivers/virtio/virtio_pci_legacy_dev", false),
    ("drivers/virtio/virtio_pci_modern_dev", false),
    ("drivers/virtio/virtio_pci", true),
    ("lib/dim/dimlib", false),
    ("lib/dim/dim", false),
    ("net/core/failover", false),
    ("drivers/net/net_failover", false),
    ("drivers/net/virtio_net", true),
    ("fs/netfs/netfs", false),
    ("fs/fscache/fscache", false),
    ("net/9p/9pnet", true),
    ("net/9p/9pnet_virtio", true),
    ("fs/9p/9p", true),
];

/// What a module's file can be packed with, and the program that unpacks it.
const PACKED: [(&str, &[&str]); 4] =
    [("", &[]), (".xz", &["xz", "-dc"]), (".zst", &["zstd", "-dcq"]), (".gz", &["gzip", "-dc"])];

/// A module's file, and how to unpack it.
type Module = (PathBuf, &'static [&'static str]);

/// Where the modules of a kernel are: `PREFIX/boot/vmlinuz-VERSION` has them in `PREFIX/lib/modules/VERSION`.
fn directory(kernel: &Path) -> Result<PathBuf, Error> {
    let wrong = || {
        Error::Unfit(format!(
            "{} is not named .../boot/vmlinuz-VERSION, so its modules are not known",
            kernel.display()
        ))
    };
    let name = kernel.file_name().and_then(|name| name.to_str()).ok_or_else(wrong)?;
    let version = name.strip_prefix("vmlinuz-").ok_or_else(wrong)?;
    let prefix = kernel.parent().and_then(Path::parent).ok_or_else(wrong)?;
    Ok(prefix.join("lib/modules").join(version))
}

/// The drivers of a kernel that are files, in the order in which they are loaded.
///
/// # Errors
/// It lacks one.
pub(super) fn modules(kernel: &Path) -> Result<Vec<Module>, Error> {
    if !kernel.is_file() {
        return Err(Error::unfit(format!("there is no kernel {}", kernel.display())));
    }
    let directory = directory(kernel)?;
    let builtin = std::fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
    let mut all = Vec::new();
    for (driver, needed) in DRIVERS {
        let file = |packed: &str| directory.join(format!("kernel/{driver}.ko{packed}"));
        let found = PACKED.iter().find(|(packed, _)| file(packed).is_file());
        match found {
            Some((packed, unpack)) => all.push((file(packed), *unpack)),
            None if !needed || builtin.contains(&format!("kernel/{driver}.ko")) => {}
            None => {
                return Err(Error::unfit(format!(
                    "kernel {} has no driver {driver} in {}",
                    kernel.display(),
                    directory.display()
                )));
            }
        }
    }
    Ok(all)
}

/// Writes the initial file system.
///
/// # Errors
/// A file of it cannot be read, or it cannot be written.
pub(super) fn write(to: &Path, program: &Path, kernel: &Path) -> Result<(), Error> {
    let failed = Error::file(to);
    let mut archive = Archive::new(BufWriter::new(File::create(to).map_err(&failed)?));
    for directory in ["dev", "root", MODULES.trim_start_matches('/')] {
        archive.directory(directory).map_err(&failed)?;
    }
    archive.console().map_err(&failed)?;
    archive.file("init", &loaded(&read(program)?)).map_err(&failed)?;
    for library in libraries(program)? {
        archive.file_with_parents(&library, &loaded(&read(&library)?)).map_err(&failed)?;
    }
    for (number, (module, unpack)) in modules(kernel)?.into_iter().enumerate() {
        let bytes = match unpack.split_first() {
            None => read(&module)?,
            Some((program, arguments)) => {
                let output = Command::new(program).args(arguments).arg(&module).output();
                output.map_err(Error::system(format_args!("{program}, to unpack drivers")))?.stdout
            }
        };
        archive.file(&format!("{}/{number:02}", &MODULES[1..]), &bytes).map_err(&failed)?;
    }
    archive.end().and_then(|mut file| file.flush()).map_err(&failed)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::file(path))
}

/// What the dynamic loader would load for a program, itself included.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = Command::new(program).arg("--version").env("LD_TRACE_LOADED_OBJECTS", "1").output();
    let listed = listed.map_err(Error::file(program))?;
    let path = |line: &str| {
        let path = line.split("=>").last()?.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    Ok(String::from_utf8_lossy(&listed.stdout).lines().filter_map(path).collect())
}

/// The part of an ELF file that is loaded. What a debugger wants comes behind it, and may be most of the file.
fn loaded(file: &[u8]) -> Vec<u8> {
    let word = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at + bytes)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    // elf(5): of a header, where the program headers are, how large each is, and how many; of each, where its bytes are, and how many.
    let end = || {
        let (headers, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        let mut end = headers.checked_add(size * count)?;
        for number in 0..count {
            let at = headers.checked_add(number * size)?;
            end = end.max(word(at + 8, 8)?.checked_add(word(at + 32, 8)?)?);
        }
        file.get(..end)
    };
    end().unwrap_or(file).to_vec()
}

/// A cpio archive of the form `newc`.
struct Archive<W: Write> {
    out: W,
    made: Vec<PathBuf>,
    number: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

impl<W: Write> Archive<W> {
    fn new(out: W) -> Archive<W> {
        Archive { out, made: Vec::new(), number: 0 }
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), bytes: &[u8]) -> std::io::Result<()> {
        self.number += 1;
        let (length, named) = (bytes.len() as u32, name.len() as u32 + 1);
        let fields = [self.number, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, named, 0]
            .map(|n| format!("{n:08X}"));
        write!(self.out, "070701{}{name}\0", fields.concat())?;
        // Each part begins at a multiple of four.
        let pad = |length: usize| &[0; 3][..length.next_multiple_of(4) - length];
        self.out.write_all(pad(110 + name.len() + 1))?;
        self.out.write_all(bytes)?;
        self.out.write_all(pad(bytes.len()))
    }

    fn directory(&mut self, name: &str) -> std::io::Result<()> {
        self.made.push(PathBuf::from(name));
        self.entry(name, DIRECTORY, (0, 0), &[])
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.entry(name, FILE, (0, 0), bytes)
    }

    fn console(&mut self) -> std::io::Result<()> {
        self.entry("dev/console", DEVICE, (5, 1), &[])
    }

    fn file_with_parents(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above {
            if !directory.as_os_str().is_empty() && !self.made.iter().any(|made| made == directory) {
                self.directory(&directory.to_string_lossy())?;
            }
        }
        self.file(&path.to_string_lossy(), bytes)
    }

    fn end(mut self) -> std::io::Result<W> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and contents of an archive, read by the format's description.
    fn entries(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |n: usize| {
                let at = 6 + n * 8;
                u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).unwrap(), 16).unwrap()
            };
            let (mode, length, named) = (field(1), field(6) as usize, field(11) as usize);
            let name = std::str::from_utf8(&bytes[110..110 + named - 1]).unwrap().to_owned();
            let begin = (110 + named).next_multiple_of(4);
            if name == "TRAILER!!!" {
                return all;
            }
            all.push((name, mode, bytes[begin..begin + length].to_vec()));
            bytes = &bytes[(begin + length).next_multiple_of(4)..];
        }
    }

    #[test]
    fn an_archive_is_what_the_kernel_unpacks() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("dev").unwrap();
        archive.console().unwrap();
        archive.file_with_parents(Path::new("/lib/x/a.so"), b"12345").unwrap();
        archive.file_with_parents(Path::new("/lib/x/bc.so"), b"").unwrap();
        let all = entries(&archive.end().unwrap());
        let names: Vec<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["dev", "dev/console", "lib", "lib/x", "lib/x/a.so", "lib/x/bc.so"]);
        assert_eq!((all[1].1, all[4].1, &all[4].2[..]), (DEVICE, FILE, &b"12345"[..]));
    }

    #[test]
    fn a_program_runs_without_what_debuggers_want() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let (whole, path) =
            (std::fs::read(std::env::current_exe().unwrap()).unwrap(), directory.path().join("short"));
        let short = loaded(&whole);
        assert!(short.len() < whole.len() && whole.starts_with(&short));
        std::fs::write(&path, &short).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Command::new(&path).arg("--list").output().unwrap().status.success());
        assert!(!libraries(&path).unwrap().is_empty());
        assert_eq!(loaded(b"no program"), b"no program");
    }

    #[test]
    fn a_kernel_without_drivers_is_said_to_lack_them() {
        let root = tempfile::tempdir().unwrap();
        let kernel = root.path().join("boot/vmlinuz-6.1");
        let modules = root.path().join("lib/modules/6.1/kernel");
        std::fs::create_dir_all(kernel.parent().unwrap()).unwrap();
        assert!(super::modules(&kernel).unwrap_err().to_string().contains("there is no kernel"));
        std::fs::write(&kernel, "").unwrap();
        for (driver, _) in DRIVERS.iter().filter(|(driver, needed)| *needed && *driver != "fs/9p/9p") {
            let file = modules.join(format!("{driver}.ko.xz"));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        assert!(super::modules(&kernel).unwrap_err().to_string().contains("no driver fs/9p/9p"));
        std::fs::write(modules.join("../modules.builtin"), "kernel/fs/9p/9p.ko\n").unwrap();
        let found = super::modules(&kernel).unwrap();
        assert_eq!((found.len(), found[0].1), (6, &["xz", "-dc"][..]));
    }
}
