from.import a
class r:
    def _(s):o
    def s(s:[])->"":e(())
    def s(e=[]):().l
def advantage(rewards,rewards,s=1):
    """"""
    ()
n()(d(1,m)+s)
def s():(()*e)