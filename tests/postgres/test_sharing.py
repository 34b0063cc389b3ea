"""One server for all processes that use a home: the first starts it, the last one stops it."""

from evenbeat.postgres.account import account_for_data
from evenbeat.postgres.binaries import choose_binaries
from evenbeat.postgres.postmaster import Postmaster
from tests.postgres.support import server_at, wait_for


def test_the_first_user_starts_the_server_and_the_last_one_stops_it(home, holder):
    server = server_at(home)
    server.acquire()
    other = holder(home)
    assert other.wait_until_it_holds() == server.pid
    server.release()
    assert server.pid is not None
    other.release()
    assert server.pid is None


def test_of_starters_at_once_one_starts_and_the_others_attach(home, holder):
    rivals = [holder(home) for _ in range(3)]
    assert len({rival.wait_until_it_holds() for rival in rivals}) == 1
    assert (home / "postgres.log").read_text().count("starting PostgreSQL") == 1
    for rival in rivals:
        rival.release()
    assert Postmaster(home / "data").running() is None


def test_a_server_whose_owner_was_killed_is_used_and_stopped_by_the_next(home, holder):
    owner = holder(home)
    orphan = owner.wait_until_it_holds()
    owner.kill()
    server = server_at(home)
    assert server.pid == orphan
    server.acquire()
    assert server.pid == orphan
    server.release()
    assert server.pid is None


def test_acquiring_again_takes_no_second_share(home):
    server = server_at(home)
    server.acquire()
    server.acquire()
    server.release()
    assert server.pid is None
    server.release()


def test_two_users_in_one_process_have_a_share_each(home):
    first, second = server_at(home), server_at(home)
    first.acquire()
    second.acquire()
    first.release()
    assert second.pid is not None
    second.release()
    assert second.pid is None


def test_a_server_started_by_hand_is_attached_to_and_its_socket_directory_kept(home, tmp_path):
    with server_at(home):
        pass
    # The password file is what we need to log in; the socket is where its owner put it.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    by_hand = server_at(home)
    account = account_for_data(home / "data")
    account.own(elsewhere)
    program = choose_binaries(None, home / "data").postgres
    with (tmp_path / "log").open("wb") as log:
        process = account.spawn(program, "-D", home / "data", "-k", elsewhere, log=log, extra={})
    wait_for(lambda: by_hand.pid == process.pid)
    with by_hand:
        assert by_hand.pid == process.pid
    assert process.wait() == 0
    assert (elsewhere / "precious").exists()


def test_a_starter_killed_in_the_middle_leaves_nothing_half_made(home, holder):
    victim = holder(home)
    wait_for(lambda: list(home.glob(".evenbeat-initdb-*/data/PG_VERSION")))
    victim.kill()
    assert not (home / "data").exists()
    with server_at(home) as server:
        assert server.pid is not None
    with server_at(home):
        assert not list(home.glob(".evenbeat-initdb-*"))
