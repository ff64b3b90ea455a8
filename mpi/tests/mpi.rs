//! Programs of MPI in C and Fortran, run with the library preloaded under each MPI that is installed. What is not installed counts as
//! ignored. A program checks itself; the library's report says whether it was taken at all.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use libtest_mimic::{Arguments, Trial};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI, as Debian installs it beside others.
#[derive(Clone, Copy)]
struct Mpi {
    name: &'static str,
    cc: &'static str,
    fortran: &'static str,
    run: &'static [&'static str],
    /// So that the launcher lets the others live when a rank ends.
    goes_on: &'static [&'static str],
    /// How a variable goes to the ranks: one word, or the name and the value apart.
    variable: fn(&str, &str) -> Vec<String>,
}

const MPIS: [Mpi; 2] = [
    Mpi {
        name: "mpich",
        cc: "mpicc.mpich",
        fortran: "mpifort.mpich",
        run: &["mpiexec.mpich"],
        goes_on: &["-disable-auto-cleanup"],
        variable: |name, value| ["-genv", name, value].map(str::to_owned).to_vec(),
    },
    Mpi {
        name: "openmpi",
        cc: "mpicc.openmpi",
        fortran: "mpifort.openmpi",
        // Ranks give way to each other when there are more of them than cores; a container may have no other user than root.
        run: &[
            "mpiexec.openmpi",
            "--oversubscribe",
            "--allow-run-as-root",
            "--mca",
            "mpi_yield_when_idle",
            "1",
        ],
        // It looks at the processes that it has started, and of a rank in killed.c that is another one.
        goes_on: &[],
        variable: |name, value| vec!["-x".to_owned(), format!("{name}={value}")],
    },
];

/// A case: what is run, by how many ranks, with which variables, and what is expected of the report.
struct Case {
    name: &'static str,
    source: &'static str,
    ranks: usize,
    variables: &'static [(&'static str, &'static str)],
    judge: fn(&Report),
}

/// Of its ranks one is lost.
const KILLED: &str = "killed.c";

const INTER: &str = "suite_inter.c";

const REPORT: (&str, &str) = ("CIRCULANT_MPI_REPORT", "1");

const CASES: [Case; 41] = [
    Case { name: "collectives_2", source: "collectives.c", ranks: 2, variables: &[REPORT], judge: all_taken },
    Case { name: "collectives_3", source: "collectives.c", ranks: 3, variables: &[REPORT], judge: all_taken },
    Case { name: "collectives_5", source: "collectives.c", ranks: 5, variables: &[REPORT], judge: all_taken },
    Case {
        name: "collectives_3_over_tcp",
        source: "collectives.c",
        ranks: 3,
        variables: &[REPORT, ("CIRCULANT_PROVIDER", "tcp")],
        judge: all_taken,
    },
    Case { name: "types_2", source: "types.c", ranks: 2, variables: &[REPORT], judge: nothing_passed },
    Case { name: "types_5", source: "types.c", ranks: 5, variables: &[REPORT], judge: nothing_passed },
    Case {
        name: "type_life",
        source: "type_life.c",
        ranks: 2,
        variables: &[REPORT],
        judge: |report| assert!(report.counts("bcast").0 > 300, "{}", report.errors),
    },
    Case {
        name: "nonblocking_2",
        source: "nonblocking.c",
        ranks: 2,
        variables: &[REPORT],
        judge: requests_taken,
    },
    Case {
        name: "nonblocking_5",
        source: "nonblocking.c",
        ranks: 5,
        variables: &[REPORT],
        judge: requests_taken,
    },
    Case {
        name: "nonblocking_3_over_tcp",
        source: "nonblocking.c",
        ranks: 3,
        variables: &[REPORT, ("CIRCULANT_PROVIDER", "tcp")],
        judge: requests_taken,
    },
    Case {
        name: "first_nonblocking_3",
        source: "first.c",
        ranks: 3,
        variables: &[REPORT],
        judge: first_taken,
    },
    Case {
        name: "first_nonblocking_4_over_tcp",
        source: "first.c",
        ranks: 4,
        variables: &[REPORT, ("CIRCULANT_PROVIDER", "tcp")],
        judge: first_taken,
    },
    Case {
        name: "nonblocking_threads",
        source: "nonblocking_threads.c",
        ranks: 2,
        variables: &[REPORT],
        judge: nothing_passed,
    },
    Case {
        name: "nonblocking_threads_over_tcp",
        source: "nonblocking_threads.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_PROVIDER", "tcp")],
        judge: nothing_passed,
    },
    Case {
        name: "nonblocking_by_a_thread",
        source: "nonblocking.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_PROGRESS", "thread")],
        judge: |report| {
            let reason = "passed on an operator of the MPI's, which only calls of the program may call";
            let (taken, passed) = report.counts("iscan");
            assert!(taken > 0 && passed > 0 && report.errors.contains(reason), "{}", report.errors);
            assert!(report.counts("ialltoallw") == (30, 0), "{}", report.errors);
        },
    },
    Case {
        name: "nonblocking_without_progress",
        source: "nonblocking.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_PROGRESS", "0")],
        judge: |report| {
            let (taken, passed) = report.counts("iallreduce");
            assert!(taken == 0 && passed > 0, "{}", report.errors);
            assert!(report.counts("allreduce").0 > 0, "{}", report.errors);
        },
    },
    Case {
        name: "nonblocking_not_tried",
        source: "nonblocking.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_TAKE", "auto")],
        judge: |report| {
            let reason = "passed on blocking calls have not tried this size yet";
            assert!(report.counts("iscan").1 > 0 && report.errors.contains(reason), "{}", report.errors);
        },
    },
    Case {
        name: "counts_of_64_bits",
        source: "large.c",
        ranks: 3,
        variables: &[REPORT],
        judge: |report| {
            let (taken, passed) = report.counts("rank 0");
            assert!(taken > 0 && passed >= 16, "taken {taken}, passed on {passed}: {}", report.errors);
        },
    },
    Case {
        name: "counts_of_64_bits_passed_on",
        source: "large.c",
        ranks: 3,
        variables: &[("CIRCULANT_MPI", "0")],
        judge: |_| (),
    },
    Case {
        name: "lists_of_64_bits_passed_on",
        source: "lists_memory.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_TAKE", "barrier")],
        judge: |report| assert_eq!(report.counts("ialltoallv"), (0, 5500), "{}", report.errors),
    },
    Case {
        name: "lists_of_64_bits_without_the_library",
        source: "lists_memory.c",
        ranks: 2,
        variables: &[("CIRCULANT_MPI", "0")],
        judge: |_| {},
    },
    Case {
        name: "lists_of_64_bits_without_progress",
        source: "lists_memory.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_PROGRESS", "0")],
        judge: |report| assert_eq!(report.counts("ialltoallv"), (0, 5500), "{}", report.errors),
    },
    Case {
        name: "allocations_2",
        source: "allocations.c",
        ranks: 2,
        variables: &[REPORT],
        judge: lists_taken,
    },
    Case {
        name: "allocations_3",
        source: "allocations.c",
        ranks: 3,
        variables: &[REPORT],
        judge: lists_taken,
    },
    Case {
        name: "intercommunicators_2",
        source: INTER,
        ranks: 2,
        variables: &[REPORT],
        judge: between_taken,
    },
    Case {
        name: "intercommunicators_3_over_tcp",
        source: INTER,
        ranks: 3,
        variables: &[REPORT, ("CIRCULANT_PROVIDER", "tcp")],
        judge: between_taken,
    },
    Case { name: "progress", source: "progress.c", ranks: 2, variables: &[REPORT], judge: moved_on },
    Case {
        name: "fortran_mpif_h",
        source: "world_mpif.F90",
        ranks: 3,
        variables: &[REPORT],
        judge: nothing_passed,
    },
    Case { name: "fortran_mpi", source: "world.F90", ranks: 3, variables: &[REPORT], judge: nothing_passed },
    Case {
        name: "fortran_mpi_f08",
        source: "world_f08.F90",
        ranks: 3,
        variables: &[REPORT],
        judge: nothing_passed,
    },
    Case {
        name: "killed_in_requests",
        source: KILLED,
        ranks: 3,
        variables: &[("KILLED_IN_REQUESTS", "1")],
        judge: survivors_learned_of_it,
    },
    Case { name: "killed", source: KILLED, ranks: 3, variables: &[], judge: survivors_learned_of_it },
    // An interpreter opens its MPI in a scope of its own, where the library has to look for it.
    Case {
        name: "opened_in_a_scope_of_its_own",
        source: "types.c opens.c",
        ranks: 2,
        variables: &[REPORT],
        judge: nothing_passed,
    },
    Case {
        name: "off",
        source: "types.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI", "0")],
        judge: |report| assert!(!report.errors.contains("circulant"), "{}", report.errors),
    },
    Case {
        name: "off_at_one_of_2",
        source: "off_at_one.c",
        ranks: 2,
        variables: &[REPORT, ("CHECK_OFF", "0")],
        judge: all_off,
    },
    Case {
        name: "off_at_one_of_3",
        source: "off_at_one.c",
        ranks: 3,
        variables: &[REPORT, ("CHECK_OFF", "0")],
        judge: all_off,
    },
    Case {
        name: "a_bad_switch_at_one",
        source: "off_at_one.c",
        ranks: 3,
        variables: &[REPORT, ("CHECK_OFF", "maybe")],
        judge: |report| {
            assert!(report.errors.contains("\"maybe\" is neither 0 nor 1"), "{}", report.errors);
            all_off(report);
        },
    },
    Case {
        name: "chosen_operations",
        source: "types.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_TAKE", "exscan,bcast:1K-")],
        judge: only_what_was_chosen,
    },
    Case {
        name: "decided",
        source: "decided.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_TAKE", "bcast:1K-")],
        judge: |report| assert_eq!(report.counts("bcast"), (200, 200), "{}", report.errors),
    },
    Case {
        name: "auto",
        source: "auto.c",
        ranks: 3,
        variables: &[REPORT, ("CIRCULANT_MPI_TAKE", "auto")],
        judge: tried_and_chosen,
    },
    Case {
        name: "a_choice_that_cannot_be",
        source: "types.c",
        ranks: 2,
        variables: &[REPORT, ("CIRCULANT_MPI_TAKE", "bcast:x")],
        judge: |report| {
            for words in ["\"x\" is no range of sizes", "all collectives go to the MPI"] {
                assert!(report.errors.contains(words), "{words}: {}", report.errors);
            }
        },
    },
];

/// What a run said on standard error.
struct Report {
    errors: String,
}

impl Report {
    /// Calls taken and passed on, of an operation or of `rank 0` for all.
    fn counts(&self, of: &str) -> (u64, u64) {
        let start = format!("circulant: {of}: taken ");
        let line = self.errors.lines().find_map(|l| l.strip_prefix(&start));
        let line = line.unwrap_or_else(|| panic!("no line of {of} in the report: {}", self.errors));
        let (taken, passed) = line.split_once(", passed on ").unwrap();
        (taken.parse().unwrap(), passed.parse().unwrap())
    }
}

/// The MPI that is installed here calls the library from its progress: Open MPI 4, and MPICH 4 over UCX.
fn moved_on(report: &Report) {
    nothing_passed(report);
    assert!(report.errors.contains("while the MPI waits it moves circulant on"), "{}", report.errors);
}

fn nothing_passed(report: &Report) {
    let (taken, passed) = report.counts("rank 0");
    assert!(taken > 0 && passed == 0, "taken {taken}: {}", report.errors);
}

/// One rank left everything to the MPI, so all did, and said so once.
fn all_off(report: &Report) {
    let said = report.errors.matches("all collectives go to the MPI").count();
    assert!(said == 1 && report.errors.contains("off at 1 of "), "{}", report.errors);
    assert!(!report.errors.contains("taken"), "{}", report.errors);
}

const OPERATIONS: &str = "barrier bcast gather gatherv scatter scatterv allgather allgatherv alltoall alltoallv alltoallw reduce \
                          allreduce reduce_scatter reduce_scatter_block scan exscan";

/// Every non-blocking operation was called, and ran here.
fn requests_taken(report: &Report) {
    nothing_passed(report);
    for operation in OPERATIONS.split_whitespace() {
        assert!(report.counts(&format!("i{operation}")).0 > 0, "{operation}: {}", report.errors);
    }
}

/// Non-blocking calls that were the first on their communicator ran here, but on one of `MPI_Comm_idup`.
fn first_taken(report: &Report) {
    for operation in ["iallgather", "iallreduce", "ibarrier"] {
        let (taken, passed) = report.counts(operation);
        assert!(taken > passed, "{operation}: {}", report.errors);
    }
    assert_eq!(report.counts("ireduce"), (0, 1), "{}", report.errors);
    let reasons: Vec<_> =
        report.errors.lines().filter(|line| line.starts_with("circulant:   passed on ")).collect();
    let known = [
        "a communicator of one rank: ",
        "a communicator of MPI_Comm_idup or of a session, before its first blocking collective: 1 ",
    ];
    assert!(reasons.iter().all(|line| known.iter().any(|reason| line.contains(reason))), "{}", report.errors);
}

/// Calls with lists ran here.
fn lists_taken(report: &Report) {
    for operation in ["allgatherv", "gatherv", "scatterv", "alltoallv", "alltoallw", "reduce_scatter"] {
        assert!(report.counts(operation).0 >= 40, "{operation}: {}", report.errors);
    }
}

/// Every operation was called, and ran here but on communicators of one rank.
fn all_taken(report: &Report) {
    for operation in OPERATIONS.split_whitespace() {
        assert!(report.counts(operation).0 > 0, "{operation}: {}", report.errors);
    }
    let reasons = report.errors.lines().filter(|l| l.contains("passed on") && l.starts_with("circulant:  "));
    for reason in reasons {
        assert!(reason.contains("a communicator of one rank"), "{reason}");
    }
}

/// On intercommunicators every call ran here that is taken there, but those that the MPI refuses.
fn between_taken(report: &Report) {
    let taken = "barrier bcast gather gatherv scatter scatterv allgather allgatherv alltoall alltoallv alltoallw allreduce \
        reduce_scatter reduce_scatter_block";
    for operation in taken.split_whitespace() {
        let (taken, passed) = report.counts(operation);
        assert!(taken > 0 && passed == 0, "{operation}: {}", report.errors);
    }
    let (taken, passed) = report.counts("reduce");
    assert!(taken > 0 && passed > 0, "{}", report.errors);
    assert_eq!(report.counts("iallreduce").0, 0, "{}", report.errors);
}

fn survivors_learned_of_it(report: &Report) {
    for rank in [0, 2] {
        assert!(report.errors.contains(&format!("rank {rank} learned of it")), "{}", report.errors);
    }
}

fn only_what_was_chosen(report: &Report) {
    assert!(report.counts("exscan").0 > 0 && report.counts("allreduce").0 == 0, "{}", report.errors);
    let (taken, passed) = report.counts("bcast");
    assert!(taken > 0 && passed > 0, "bcast: {taken} and {passed}: {}", report.errors);
    let reason = "not chosen by CIRCULANT_MPI_TAKE";
    assert!(report.errors.contains(reason), "{}", report.errors);
}

/// Both sides ran calls of each operation, and the report says what was chosen at which sizes.
fn tried_and_chosen(report: &Report) {
    for operation in ["barrier", "allreduce", "allgatherv", "gatherv", "bcast", "reduce"] {
        let (taken, passed) = report.counts(operation);
        assert!(taken >= 4 && passed >= 4, "{operation}: {taken} and {passed}: {}", report.errors);
        let line = format!("circulant: tried {operation} ");
        assert!(report.errors.contains(&line), "{line}: {}", report.errors);
    }
    let sizes = [
        "allreduce of up to 4 bytes",
        "allreduce of up to 32768 bytes",
        "gatherv of any size",
        "barrier of up to 1 bytes",
    ];
    for size in sizes {
        assert!(report.errors.contains(&format!("circulant: tried {size}: ")), "{size}: {}", report.errors);
    }
}

fn have(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// The library, which cargo has built for this test: beside it, or where cargo puts what was asked for.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let places = [deps.join("libcirculant_mpi.so"), deps.with_file_name("libcirculant_mpi.so")];
    places.into_iter().find(|p| p.exists()).expect("libcirculant_mpi.so beside the test")
}

impl Mpi {
    fn compiler(&self, source: &str) -> &'static str {
        if source.ends_with(".c") { self.cc } else { self.fortran }
    }

    fn flags(&self, source: &str) -> &'static [&'static str] {
        // What mpif.h leaves undeclared gfortran takes for one procedure with arguments of one type.
        if source.ends_with(".c") { &["-O1"] } else { &["-O1", "-fallow-argument-mismatch"] }
    }
}

/// Compiles a program of the folder `programs`.
fn build(folder: &Path, compiler: &str, flags: &[&str], source: &str) -> PathBuf {
    let program = folder.join(source.replace('.', "_"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut command = Command::new(compiler);
    let built =
        command.args(flags).arg("-o").arg(&program).arg(&source).current_dir(folder).output().unwrap();
    assert!(built.status.success(), "{compiler}: {}", String::from_utf8_lossy(&built.stderr));
    program
}

fn run(mpi: Mpi, case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let program = match case.source.split_once(' ') {
        None => vec![build(folder.path(), mpi.compiler(case.source), mpi.flags(case.source), case.source)],
        Some((part, opens)) => vec![
            build(folder.path(), "cc", &[], opens),
            build(folder.path(), mpi.cc, &["-O1", "-shared", "-fPIC", "-Dmain=run"], part),
        ],
    };
    let mut command = Command::new("timeout");
    // It stops what hangs.
    command.args(["--kill-after=5", "240"]).args(mpi.run);
    if case.source == KILLED {
        command.args(mpi.goes_on);
    }
    command.args(["-n", &case.ranks.to_string()]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CIRCULANT_") {
            command.env_remove(name);
        }
    }
    let library = library();
    let preload = ("LD_PRELOAD", library.to_str().unwrap());
    for (name, value) in case.variables.iter().copied().chain([preload]) {
        command.args((mpi.variable)(name, value));
    }
    let done = command.args(&program).current_dir(&folder).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr).into_owned());
    assert!(done.status.success() || case.source == KILLED, "{}: {said}{errors}", done.status);
    assert!(said.contains(" checks, 0 wrong") || said.contains(" No Errors"), "{said}{errors}");
    (case.judge)(&Report { errors });
}

fn main() {
    let mut trials = Vec::new();
    for mpi in MPIS {
        for case in &CASES {
            let there = have(mpi.compiler(case.source)) && have(mpi.run[0]);
            let test = move || {
                run(mpi, case);
                Ok(())
            };
            trials.push(Trial::test(format!("{}::{}", mpi.name, case.name), test).with_ignored_flag(!there));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
