// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that planes leave behind: in process namespaces, in sessions of their own, as children of the supervisor.

use super::*;

/// Children of a process.
fn children(pid: u32) -> Vec<u32> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    all.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a process blocks SIGTERM, as the kernel shows it.
fn blocks_term(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal_hook::consts::SIGTERM - 1) & 1 == 1
}

/// In a process namespace of its own, a program ends by SIGTERM although it does not handle it, and orphans are waited for.
#[test]
fn a_process_namespace_has_a_first_process() {
    if testbed::rig::skip("a_process_namespace_has_a_first_process") {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let deployment = Deployment::new(
        "[planes.a]\nkind = \"control\"\nown_processes = true\nstop_timeout = \"1h\"\n\
         command = \"sh -c 'for i in 1 2 3; do (sleep 0.01 &); done; echo own number $$; exec sleep 100000'\"\n",
        "",
    );
    let mut up = deployment.up(&home);
    up.wait_for_text("own number 2", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    let outer = deployment.pid("a").unwrap();
    let first = children(outer)[0];
    wait_for("orphans to be gone", PATIENCE, || children(first).len() == 1).unwrap();
    assert!(!blocks_term(children(first)[0]), "the block is not for the program");
    let restarted = deployment.run(&["restart", "a"]);
    assert!(restarted.status.success(), "{}", text_of(&restarted));
    up.wait_for_text("plane a ended with status 143", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    // It counts as ready since the namespace was made, and ends however early it is asked to.
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

/// A signal that waits when the first process of a namespace begins ends the program.
#[test]
fn a_signal_that_comes_before_the_first_process_is_not_lost() {
    if testbed::rig::skip_without("a_signal_that_comes_before_the_first_process_is_not_lost", &["unshare"]) {
        return;
    }
    use nix::sys::signal::{SigSet, Signal};
    // As the launcher does: what it starts has the block, too.
    SigSet::from_iter([Signal::SIGTERM]).thread_block().unwrap();
    let line = format!("kill -TERM $$; exec {JUNCTOR} plane --first -- sleep 100000");
    let mut child = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "sh", "-c", &line])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut status = None;
    let ended = wait_for("the program's end", PATIENCE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    if ended.is_err() {
        child.kill().unwrap();
    }
    ended.unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(143));
}

/// Numbers of processes that run `sleep` for so many seconds.
fn sleepers(seconds: &str) -> Vec<u32> {
    let wanted = format!("sleep\0{seconds}\0");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted.as_bytes());
    pids.filter(is_one).collect()
}

/// The command of a supervisor that finds no control groups, and is process 1 of a container if `first`.
fn without_groups(home: &Namespace, deployment: &Deployment, first: bool) -> Process {
    let line = format!(
        "mount --make-rprivate / && mount -t tmpfs none /sys/fs/cgroup && exec {JUNCTOR} up {}",
        deployment.file()
    );
    let mut words = vec!["unshare", "--mount"];
    if first {
        words.extend(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    }
    words.extend(["sh", "-c", &line]);
    home.spawn(&words).unwrap()
}

/// A deployment that leaves no control groups to find processes by. Of plane `a`, four are in sessions of their own, with these times:
/// a child, one without a parent, another child, and a child of that one with another environment. One more, of plane `b`, has a 9
/// behind its time; one with an 8 has neither a parent nor the environment that names its plane.
fn with_sessions(number: u32) -> (Deployment, String) {
    let seconds = format!("{}{number}", std::process::id());
    let text = "[planes.a]\nkind = \"control\"\nbackoff = \"1ms\"\nbackoff_max = \"1ms\"\ncommand = \"sh a.sh\"\n\
         [planes.b]\nkind = \"control\"\ncommand = [\"sh\", \"b.sh\"]\n";
    let deployment = Deployment::new(text, "");
    let write = |name: &str, text| std::fs::write(deployment.directory.path().join(name), text).unwrap();
    let a = "setsid sleep TIME &\n(setsid sleep TIME &)\nsetsid sh -c 'setsid env -i sleep TIME & exec sleep TIME' &\n\
        (sleep 0.01 &)\nexec sleep 100000\n";
    write("a.sh", a.replace("TIME", &seconds));
    let b = "(setsid sleep TIME9 &)\n(setsid env -i sleep TIME8 &)\nexec sleep 100000\n";
    write("b.sh", b.replace("TIME", &seconds));
    (deployment, seconds)
}

/// Waits until all of them run.
fn wait_for_sessions(up: &mut Process, seconds: &str) -> Vec<u32> {
    up.wait_for_text("is up: all 2 planes are ready", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    assert!(up.stderr().contains("by affinity"), "{}", up.stderr());
    let counts = || ["", "8", "9"].map(|end| sleepers(&format!("{seconds}{end}")).len());
    wait_for("all processes", PATIENCE, || counts() == [4, 1, 1])
        .unwrap_or_else(|e| panic!("{e}: {:?}", counts()));
    sleepers(seconds)
}

/// Waits until none of those that were there runs, and as many others do.
fn wait_for_others(seconds: &str, before: &[u32]) {
    let all_others = || {
        let now = sleepers(seconds);
        now.len() == before.len() && !now.iter().any(|pid| before.contains(pid))
    };
    wait_for("other processes", PATIENCE, all_others)
        .unwrap_or_else(|e| panic!("{e}: {before:?} {:?}", sleepers(seconds)));
}

#[test]
fn what_is_in_sessions_of_its_own_ends_with_its_plane() {
    let name = "what_is_in_sessions_of_its_own_ends_with_its_plane";
    if testbed::rig::skip_without(name, &["unshare", "setsid"]) {
        return;
    }
    let home = Namespace::new("up").unwrap();
    for first in [false, true] {
        let (deployment, seconds) = with_sessions(first.into());
        let mut up = without_groups(&home, &deployment, first);
        let before = wait_for_sessions(&mut up, &seconds);
        let others = ["8", "9"].map(|end| sleepers(&format!("{seconds}{end}")));
        let supervisor = if first { children(up.id())[0] } else { up.id() };
        // Two planes, and three of the processes that have lost their parents.
        wait_for("ended orphans to be gone", PATIENCE, || children(supervisor).len() == 5)
            .unwrap_or_else(|e| panic!("{e}: {:?}", children(supervisor)));
        let plane = children(supervisor).into_iter().find(|pid| children(*pid).len() == 2);
        kill(plane.unwrap());
        up.wait_for_text("plane a was ended by signal 9; starting it again", PATIENCE)
            .unwrap_or_else(|e| panic!("{e}"));
        wait_for_others(&seconds, &before);
        assert_eq!(["8", "9"].map(|end| sleepers(&format!("{seconds}{end}"))), others, "of the other plane");
        let down = deployment.run(&["down"]);
        assert!(text_of(&down).contains("is down"), "{}", text_of(&down));
        up.interrupt(PATIENCE).unwrap();
        let left = ["", "8", "9"].map(|end| sleepers(&format!("{seconds}{end}")).len());
        assert_eq!(left, [0, 0, 0]);
    }
}

/// A supervisor that follows a killed one finds them, too, although they are not its children.
#[test]
fn what_is_in_sessions_of_its_own_is_found_by_the_next_supervisor() {
    let name = "what_is_in_sessions_of_its_own_is_found_by_the_next_supervisor";
    if testbed::rig::skip_without(name, &["unshare", "setsid"]) {
        return;
    }
    let home = Namespace::new("up").unwrap();
    let (deployment, seconds) = with_sessions(7);
    let mut up = without_groups(&home, &deployment, false);
    let before = wait_for_sessions(&mut up, &seconds);
    kill(up.id());
    wait_for("the supervisor's end", PATIENCE, || up.ended().is_some()).unwrap();
    assert_eq!(sleepers(&seconds), before);
    up = without_groups(&home, &deployment, false);
    up.wait_for_text("plane a goes on", PATIENCE).unwrap_or_else(|e| panic!("{e}"));
    deployment.kill("a");
    wait_for_others(&seconds, &before);
    let ended = up.interrupt(PATIENCE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let left = ["", "9"].map(|end| sleepers(&format!("{seconds}{end}")).len());
    // Nothing says where this one comes from.
    sleepers(&format!("{seconds}8")).into_iter().for_each(kill);
    assert_eq!(left, [0, 0]);
}
